# Prints what failed in the output of `go test -v`: each failed test with the end of what it said, then the
# names alone, for whoever sees only the end of a long log.

function tail(text, most,    lines, n, i, out) {
	n = split(text, lines, "\n")
	for (i = n > most ? n - most : 1; i < n; i++) out = out "    " lines[i] "\n"
	return out
}

/^=== (RUN|NAME|CONT|PAUSE)/ { test = $3; next }

/^ *--- (PASS|SKIP): / { delete said[$3]; next }

/^ *--- FAIL: / { failed[++tests] = $3; next }

/^FAIL\t/ { broken[++packages] = $2 " " $3 " " $4; next }

/^(panic|fatal error): |^WARNING: DATA RACE/ { alarms = alarms "FAILED " substr($0, 1, 200) "\n" }

{ said[test] = said[test] substr($0, 1, 300) "\n" }

END {
	if (!tests && !packages) exit
	print "--- what failed"
	for (i = 1; i <= tests; i++) printf "%s\n%s", failed[i], tail(said[failed[i]], 30)
	printf "%s", alarms
	for (i = 1; i <= tests; i++) print "FAILED", failed[i]
	for (i = 1; i <= packages; i++) print "FAILED", broken[i]
}

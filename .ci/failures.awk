# Prints what failed in the output of `go test -v`, for whoever sees only the end of a long log: each failed test
# with the end of what it said, then with its own lines, without the logs of others that it shows.

function tail(text, most,    lines, n, i, out) {
	n = split(text, lines, "\n")
	for (i = n > most ? n - most : 1; i < n; i++) out = out "    " lines[i] "\n"
	return out
}

/^=== (RUN|NAME|CONT|PAUSE)/ { test = $3; next }

/^ *--- (PASS|SKIP): / { delete said[$3]; delete own[$3]; next }

/^ *--- FAIL: / { failed[++tests] = $3; next }

/^FAIL\t/ { broken[++packages] = $2 " " $3 " " $4; next }

/^(panic|fatal error): |^WARNING: DATA RACE/ { alarms = alarms "FAILED " substr($0, 1, 200) "\n" }

/^ +[a-z0-9_]+\.go:[0-9]+: / { own[test] = own[test] substr($0, 1, 300) "\n" }

{ said[test] = said[test] substr($0, 1, 300) "\n" }

END {
	if (!tests && !packages) exit
	print "--- what failed"
	for (i = 1; i <= tests; i++) printf "%s\n%s", failed[i], tail(said[failed[i]], 30)
	printf "%s", alarms
	for (i = 1; i <= tests; i++) printf "FAILED %s\n%s", failed[i], tail(own[failed[i]], 8)
	for (i = 1; i <= packages; i++) print "FAILED", broken[i]
}

# shellcheck shell=sh
# What docker.sh and containerd.sh share: asking a socket, knowing a process
# again, starting it, waiting for it and ending it. To be sourced by a script
# that has set $name (of the daemon's files) and $protocol (http or grpc).
#
# A process is known by its pid and its start time, because the kernel gives a
# pid to another process soon after.

: "${name:?}" "${protocol:?}"

run_dir=${HFTEST_RUN_DIR:-/run/heteroflow-test}
deadline=${HFTEST_DEADLINE:-60} # seconds to start or to stop
own=$run_dir/$name.pid          # "PID STARTTIME" of what we started
log=$run_dir/$name.log

say() { printf '%s: %s\n' "${0##*/}" "$*"; }

die() {
	say "$*" >&2
	exit 1
}

# probe SOCKET prints
#   answers  a daemon speaks our protocol there
#   silent   something listens but gives no such answer in 5 s
#   dead     the file is left over: nobody listens
#   absent   there is no socket
probe() {
	if [ ! -S "$1" ]; then
		echo absent
		return
	fi
	# perl-base is essential on Debian and Ubuntu; nothing else that can talk
	# to a unix socket is.
	# shellcheck disable=SC2016 # for perl
	timeout 5 perl -MSocket -MErrno=ECONNREFUSED,ENOENT -e '
		my ($path, $protocol) = @ARGV;
		$SIG{PIPE} = "IGNORE";
		socket(my $s, PF_UNIX, SOCK_STREAM, 0) or die "socket: $!\n";
		if (!connect($s, pack_sockaddr_un($path))) {
			print $! == ECONNREFUSED ? "dead\n" : $! == ENOENT ? "absent\n" : die "connect to $path: $!\n";
			exit;
		}
		# A gRPC server greets with a SETTINGS frame, type 4 (RFC 9113, 3.4).
		my %talk = (
			http => ["GET /_ping HTTP/1.0\r\nHost: docker\r\n\r\n", qr/^HTTP\/1\.[01] 200/],
			grpc => ["PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", qr/^...\x04/s],
		);
		my ($hello, $want) = @{$talk{$protocol}};
		syswrite($s, $hello) or die "write: $!\n";
		my $got = "";
		while (length $got < 12 && sysread($s, $got, 4096, length $got)) {}
		die "$path: not the answer of a daemon\n" unless $got =~ $want;
		print "answers\n"' "$1" "$protocol" || echo silent
}

# alive PID succeeds unless the process is gone or a zombie.
alive() {
	case $(sed 's/^.*) //' "/proc/$1/stat" 2>/dev/null) in
	'' | [ZX]*) return 1 ;;
	esac
}

start_time() { sed 's/^.*) //' "/proc/$1/stat" 2>/dev/null | cut -d ' ' -f 20; }

# own_pid prints the pid of the daemon we started, if it lives.
own_pid() {
	[ -r "$own" ] && read -r pid started <"$own" || return 1
	[ -n "$started" ] && [ "$(start_time "$pid")" = "$started" ] && alive "$pid" && echo "$pid"
}

# holder FILE PROGRAM prints the pid in a daemon's own pid file if it is that
# program. The kernel cuts the name in comm to 15 bytes.
holder() {
	[ -r "$1" ] || return 1
	pid=$(tr -cd 0-9 <"$1")
	[ -n "$pid" ] && alive "$pid" || return 1
	[ "$(cat "/proc/$pid/comm")" = "$(basename "$2" | cut -c 1-15)" ] && echo "$pid"
}

# remove_stale_pidfile FILE PROGRAM removes a pid file that names no living
# process of that program: the daemon would refuse to start.
remove_stale_pidfile() {
	if [ -e "$1" ] && ! holder "$1" "$2" >/dev/null; then
		say "removing $1: it names no running ${2##*/}"
		rm -f "$1"
	fi
}

# remove_dead_socket SOCKET removes a socket that nobody listens on.
remove_dead_socket() {
	if [ "$(probe "$1" 2>/dev/null)" = dead ]; then
		say "removing $1: nobody listens on it"
		rm -f "$1"
	fi
}

systemd_is_pid_1() { [ -d /run/systemd/system ]; }

need_root() { [ "$(id -u)" -eq 0 ] || die "starting a daemon needs root"; }

# install_missing THING:PACKAGE... installs the package of each thing, a command
# or the absolute path of a file, that is missing.
install_missing() {
	packages=
	for pair in "$@"; do
		thing=${pair%%:*}
		case $thing in
		/*) [ -e "$thing" ] ;;
		*) command -v "$thing" >/dev/null ;;
		esac || packages="$packages ${pair#*:}"
	done
	[ -n "$packages" ] || return 0
	command -v apt-get >/dev/null || die "missing and not installable without apt-get:$packages"
	say "installing with apt-get:$packages"
	export DEBIAN_FRONTEND=noninteractive
	apt-get -q update || die "apt-get update failed, see above"
	# shellcheck disable=SC2086 # a list of words
	apt-get -q install -y --no-install-recommends $packages </dev/null ||
		die "apt-get could not install:$packages, see above"
}

# launch COMMAND... starts a daemon that outlives us and records its pid.
launch() {
	mkdir -p "$run_dir"
	rm -f "$own"
	[ ! -e "$log" ] || mv -f "$log" "$log.old"
	say "starting $* (log: $log)"
	# The start time stays the same over exec.
	# shellcheck disable=SC2016 # for the inner shell
	setsid sh -c '
		started=$(sed "s/^.*) //" "/proc/$$/stat" | cut -d " " -f 20)
		echo "$$ $started" >"$1"
		shift
		exec "$@"' sh "$own" "$@" </dev/null >"$log" 2>&1 &
}

# await_answer SOCKET [PID] waits until the socket answers and fails early when
# the daemon we launched, or PID, is gone.
await_answer() {
	until=$(($(date +%s) + deadline))
	while :; do
		state=$(probe "$1" 2>&1 | tail -n 1)
		[ "$state" != answers ] || return 0
		if [ -n "${2:-}" ]; then
			alive "$2" || die "process $2 ended before it answered on $1"
		elif [ -e "$own" ] && ! own_pid >/dev/null; then
			break
		fi
		[ "$(date +%s)" -lt "$until" ] || break
		sleep 0.2
	done
	if [ -n "${2:-}" ] || [ ! -e "$own" ]; then # somebody else's daemon, somebody else's log
		die "no answer on $1 within $deadline s ($state); its own log says why"
	fi
	say "the last lines of $log:" >&2
	tail -n 20 "$log" >&2
	if own_pid >/dev/null; then
		die "no answer on $1 within $deadline s ($state); '$0 stop' ends the daemon"
	fi
	die "the daemon ended without an answer on $1, see above"
}

# stop_own ends the daemon we started, with SIGKILL after the deadline.
stop_own() {
	if ! pid=$(own_pid); then
		rm -f "$own"
		say "nothing to stop: no daemon that this script started is running"
		return
	fi
	kill -TERM "$pid"
	until=$(($(date +%s) + deadline))
	while own_pid >/dev/null; do
		if [ "$(date +%s)" -ge "$until" ]; then
			say "process $pid did not stop within $deadline s, killing it"
			kill -KILL "$pid"
			break
		fi
		sleep 0.2
	done
	rm -f "$own"
	say "stopped process $pid"
}

# report_state SOCKET says what is there and succeeds if it answers.
report_state() {
	state=$(probe "$1" 2>/dev/null)
	say "$1: $state"
	[ "$state" = answers ]
}

# report_status SOCKET does so for our own daemon's socket.
report_status() {
	if pid=$(own_pid); then
		say "process $pid was started by this script (log: $log)"
	fi
	report_state "$1"
}

#!/bin/sh
# Makes a Docker daemon available to tests, with or without systemd.
#
#   docker.sh start    does nothing if a daemon answers; else installs what is
#                      missing (apt-get) and starts one
#   docker.sh stop     stops the daemon only if this script started it
#   docker.sh status   exit status 0 if a daemon answers
#
# Environment:
#   HFTEST_DOCKER    unix://SOCKET (default unix:///var/run/docker.sock)
#   HFTEST_RUN_DIR   pid and log files (default /run/heteroflow-test)
#   HFTEST_DEADLINE  seconds to start or stop (default 60)
#   DOCKERD_BIN      another dockerd
#   DOCKERD_DATA_ROOT, DOCKERD_EXEC_ROOT, DOCKERD_PIDFILE
#                    its directories; a second daemon needs all three
#   DOCKERD_ARGS     more arguments, split at spaces
#
# A second daemon must not share the network namespace of the first, whose
# bridge it would take away: run "unshare -n docker.sh start". The docker
# command is not installed where it is a package of its own; the tests speak to
# the socket.
set -u

here=$(cd "$(dirname "$0")" && pwd)
default_socket=/var/run/docker.sock
host=${HFTEST_DOCKER:-unix://$default_socket}
socket=${host#unix://}
dockerd=${DOCKERD_BIN:-dockerd}
exec_root=${DOCKERD_EXEC_ROOT:-/var/run/docker}
pidfile=${DOCKERD_PIDFILE:-/var/run/docker.pid}
system_containerd=/run/containerd/containerd.sock

name=docker$(printf %s "$socket" | tr / -)
protocol=http
# shellcheck source=process.sh
. "$here/process.sh"

case $host in
unix:///*) ;;
*) die "HFTEST_DOCKER=$host: only unix:///path is supported" ;;
esac

start() {
	state=$(probe "$socket" 2>/dev/null)
	if [ "$state" = answers ]; then
		say "a Docker daemon already answers on $socket"
		return
	fi
	need_root
	install_missing "$dockerd:docker.io" containerd:containerd runc:runc iptables:iptables
	if systemd_is_pid_1 && [ "$socket" = "$default_socket" ] && [ -z "${DOCKERD_BIN:-}" ]; then
		say "starting docker.service"
		systemctl start docker || die "systemctl start docker failed; see 'journalctl -u docker'"
		await_answer "$socket"
		return
	fi
	if pid=$(holder "$pidfile" "$dockerd"); then
		# Also the case when the package's own init script just started it.
		say "process $pid is a dockerd that holds $pidfile; waiting for its answer"
		await_answer "$socket" "$pid"
		return
	fi
	start_by_hand
}

start_by_hand() {
	remove_stale_pidfile "$pidfile" "$dockerd"
	remove_stale_pidfile "$exec_root/containerd/containerd.pid" containerd
	remove_dead_socket "$socket"
	# dockerd starts a containerd of its own unless it finds this socket; then
	# it waits for an answer, also where nobody listens.
	remove_dead_socket "$system_containerd"
	if [ "$(probe "$socket" 2>/dev/null)" != absent ]; then
		die "$socket is in use by something that does not answer; end it first"
	fi
	mkdir -p "$(dirname "$socket")"
	set -- "$dockerd" --host "unix://$socket" --pidfile "$pidfile" --exec-root "$exec_root"
	[ -z "${DOCKERD_DATA_ROOT:-}" ] || set -- "$@" --data-root "$DOCKERD_DATA_ROOT"
	# shellcheck disable=SC2086 # documented as split at spaces
	launch "$@" ${DOCKERD_ARGS:-}
	await_answer "$socket"
	say "a Docker daemon answers on $socket"
}

case ${1:-} in
start) start ;;
stop) stop_own ;;
status) report_status "$socket" ;;
*)
	echo "usage: ${0##*/} start|stop|status" >&2
	exit 2
	;;
esac

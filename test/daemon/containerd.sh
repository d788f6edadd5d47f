#!/bin/sh
# Makes a containerd available to tests: by default a private one, with root,
# state and socket of its own, beside whatever the machine runs.
#
#   containerd.sh start           does nothing if it answers; else installs what
#                                 is missing (apt-get) and starts it
#   containerd.sh stop            stops it only if this script started it; its
#                                 tasks go on
#   containerd.sh status          exit status 0 if it answers
#   containerd.sh check [SOCKET]  only asks a socket, by default the system's
#                                 /run/containerd/containerd.sock
#
# Environment:
#   HFTEST_CONTAINERD  the socket (default RUN_DIR/containerd/containerd.sock);
#                      set to the system's socket, start starts the system's
#                      containerd, with systemd if that runs
#   HFTEST_RUN_DIR     pid, log, state (default /run/heteroflow-test)
#   HFTEST_DEADLINE    seconds to start or stop (default 60)
#   CONTAINERD_BIN     another containerd, 1.6 or later; its shim is taken from
#                      the same directory first
#   CONTAINERD_ROOT    images and snapshots
#                      (default /var/lib/heteroflow-test/containerd)
set -u

here=$(cd "$(dirname "$0")" && pwd)
system_socket=/run/containerd/containerd.sock
socket=${HFTEST_CONTAINERD:-${HFTEST_RUN_DIR:-/run/heteroflow-test}/containerd/containerd.sock}
containerd=${CONTAINERD_BIN:-containerd}
root=${CONTAINERD_ROOT:-/var/lib/heteroflow-test/containerd}

name=containerd$(printf %s "$socket" | tr / -)
protocol=grpc
# shellcheck source=process.sh
. "$here/process.sh"

case $socket in
/*) ;;
*) die "HFTEST_CONTAINERD=$socket: must be the absolute path of a socket" ;;
esac

start() {
	if [ "$(probe "$socket" 2>/dev/null)" = answers ]; then
		say "a containerd already answers on $socket"
		return
	fi
	need_root
	install_missing "$containerd:containerd" runc:runc iptables:iptables
	[ -e /opt/cni/bin/bridge ] || install_missing /usr/lib/cni/bridge:containernetworking-plugins
	if pid=$(own_pid); then
		# A second daemon on the same root would wait for its lock for ever.
		say "process $pid was started for $socket; waiting for its answer"
		await_answer "$socket" "$pid"
		return
	fi
	if [ "$socket" = "$system_socket" ] && systemd_is_pid_1; then
		say "starting containerd.service"
		systemctl start containerd || die "systemctl start containerd failed; see 'journalctl -u containerd'"
		await_answer "$socket"
		return
	fi
	start_by_hand
}

start_by_hand() {
	remove_dead_socket "$socket"
	remove_dead_socket "$socket.ttrpc"
	if [ "$(probe "$socket" 2>/dev/null)" != absent ]; then
		die "$socket is in use by something that does not answer; end it first"
	fi
	PATH=$(dirname "$(command -v "$containerd")"):$PATH # for its shim
	export PATH
	if [ "$socket" = "$system_socket" ]; then
		launch "$containerd"
	else
		mkdir -p "$(dirname "$socket")" "$root" "$run_dir"
		write_config >"$run_dir/$name.toml" || die "cannot write $run_dir/$name.toml"
		launch "$containerd" --config "$run_dir/$name.toml"
	fi
	await_answer "$socket"
	say "a containerd answers on $socket"
}

# write_config prints a configuration without Kubernetes' parts, whose names
# changed with containerd 2.
write_config() {
	case $("$containerd" --version) in
	*containerd/v2*)
		echo 'version = 3'
		echo 'disabled_plugins = ["io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri", "io.containerd.nri.v1.nri", "io.containerd.podsandbox.controller.v1.podsandbox"]'
		;;
	*)
		echo 'version = 2'
		echo 'disabled_plugins = ["io.containerd.grpc.v1.cri"]'
		;;
	esac
	cat <<-END
		root = "$root"
		state = "${socket%/*}/state"
		[grpc]
		  address = "$socket"
		[ttrpc]
		  address = "$socket.ttrpc"
	END
}

case ${1:-} in
start) start ;;
stop) stop_own ;;
status) report_status "$socket" ;;
check) report_state "${2:-$system_socket}" ;;
*)
	echo "usage: ${0##*/} start|stop|status|check [SOCKET]" >&2
	exit 2
	;;
esac

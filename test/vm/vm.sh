#!/bin/sh
# Runs the conformance suites of both runtimes in a virtual machine with systemd and
# cgroup version 2, which the machine that tests run on may not have: Debian's own
# kernel, Docker and containerd. As root, with mmdebstrap and qemu-system-x86_64.
#
#   vm.sh [GROUPS]   a pattern of the suites' groups (default memory|limits|exit|process)
#
# Without KVM the machine is emulated, about 25 times slower: ten minutes for the
# default groups on two idle cores.
#
# Environment:
#   VM_SUITE   Debian release (default trixie)
#   VM_CACHE   where the root file system is kept (default /var/cache/heteroflow-test/vm)
#   VM_ACCEL   qemu's accelerator (default tcg,thread=multi; kvm where it can be had)
#   VM_TIME    seconds the machine may take (default 3600)
set -eu

groups=${1:-memory|limits|exit|process}
suite=${VM_SUITE:-trixie}
cache=${VM_CACHE:-/var/cache/heteroflow-test/vm}/$suite
packages=linux-image-cloud-amd64,initramfs-tools,systemd-sysv,udev,dbus,docker.io,containerd,runc,crun
packages=$packages,containernetworking-plugins,iptables,iproute2,kmod,apparmor,ca-certificates

top=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for program in mmdebstrap mke2fs qemu-system-x86_64 go; do
	command -v "$program" >/dev/null || {
		echo "vm.sh: no $program (apt-get install mmdebstrap e2fsprogs qemu-system-x86)" >&2
		exit 2
	}
done

if [ ! -f "$cache/root.tar" ]; then
	mkdir -p "$cache"
	mmdebstrap --quiet --variant=minbase --include="$packages" "$suite" "$cache/root.tar.new"
	mv "$cache/root.tar.new" "$cache/root.tar"
fi
mkdir "$work/root"
tar -C "$work/root" -xf "$cache/root.tar"

tests=$work/root/tests
mkdir "$tests"
cd "$top"
for package in runtime/docker runtime/containerd; do
	CGO_ENABLED=0 go test -c -o "$tests/${package#*/}.test" "./$package"
done
for package in test/workload cmd/heteroflow-log-shim; do
	CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags='-s -w' -o "$tests/${package#*/}" "./$package"
done

# The suites build these two with the toolchain, which the machine has not.
cat >"$tests/go" <<'EOF'
#!/bin/sh
while [ $# -gt 1 ]; do
	[ "$1" = -o ] && file=$2
	shift
done
exec cp "/tests/${1##*/}" "$file"
EOF

cat >"$tests/run" <<EOF
#!/bin/sh
dmesg -n 1
echo "kernel \$(uname -r), \$(stat -fc %T /sys/fs/cgroup), Docker \$(docker version -f '{{.Server.Version}}'), \$(containerd --version)"
cd /tests
export PATH=/tests:\$PATH HOME=/root HFTEST_REQUIRE_DOCKER=1
./docker.test -test.v -test.timeout ${VM_TIME:-3600}s -test.run 'TestDockerConforms/($groups)'
docker=\$?
./containerd.test -test.v -test.timeout ${VM_TIME:-3600}s -test.run 'TestContainerdConforms/system-runc/($groups)'
echo "vm.sh: docker \$docker, containerd \$?"
systemctl poweroff
EOF
chmod +x "$tests/go" "$tests/run"

cat >"$work/root/etc/systemd/system/tests.service" <<'EOF'
[Unit]
After=docker.service containerd.service
Wants=docker.service containerd.service
[Service]
Type=oneshot
ExecStart=/tests/run
StandardOutput=tty
StandardError=tty
TTYPath=/dev/ttyS0
EOF
mkdir -p "$work/root/etc/systemd/system/multi-user.target.wants"
ln -s ../tests.service "$work/root/etc/systemd/system/multi-user.target.wants/tests.service"
mke2fs -q -t ext4 -d "$work/root" "$work/disk" 3G

timeout "${VM_TIME:-3600}" qemu-system-x86_64 -accel "${VM_ACCEL:-tcg,thread=multi}" -cpu max -m 4096 -smp 2 \
	-nographic -no-reboot -nic none -kernel "$work"/root/boot/vmlinuz-* -initrd "$work"/root/boot/initrd.img-* \
	-append "root=/dev/vda rw console=ttyS0 panic=1 mitigations=off quiet" \
	-drive "file=$work/disk,if=virtio,format=raw,cache=unsafe" </dev/null | tee "$work/log"
tr -d '\r' <"$work/log" | grep -q '^vm.sh: docker 0, containerd 0$'

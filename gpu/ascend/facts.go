package ascend

// What a container needs to use a chip, for the CDI generator. Paths are the
// host's; what a generation does not have is not there and is left out. Sources:
// github.com/Ascend/mind-cluster component/ascend-common/cdi/devnode.go and the
// base.list of its ascend-docker-runtime.

// ChipNode is the device node of a chip, by Device.Minor (the physical id).
const ChipNode = "/dev/davinci%d"

// SharedNodes are needed beside any chip. The 950 has no devmm_svm and, instead
// of dvpp_cmdlist, the nodes below SharedNodeDirs. The SoC 310B has all of
// SoCNodes, too.
var (
	SharedNodes    = []string{"/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc", "/dev/dvpp_cmdlist"}
	SharedNodeDirs = []string{"/dev/uburma", "/dev/ummu"}
	SoCNodes       = []string{
		"/dev/svm0", "/dev/ts_aisle", "/dev/upgrade", "/dev/sys", "/dev/vdec", "/dev/vpc", "/dev/pngd", "/dev/venc",
		"/dev/log_drv", "/dev/acodec", "/dev/ai", "/dev/ao", "/dev/vo", "/dev/hdmi",
	}
)

// Mounts are mounted read-only at the same path.
var Mounts = []string{
	"/usr/local/Ascend/driver/lib64",
	"/usr/local/Ascend/driver/include",
	"/usr/local/Ascend/driver/tools",
	"/usr/local/Ascend/driver/topo",
	"/usr/local/Ascend/driver/version.info",
	"/usr/local/dcmi",
	"/usr/local/bin/npu-smi",
	"/etc/ascend_install.info",
	"/etc/hccn.conf",
	"/etc/hccl_rootinfo.json",
}

// VisibleEnv is what Huawei's own container runtime reads: physical ids of the
// host, or "void". ASCEND_RT_VISIBLE_DEVICES, which the frameworks read, counts
// from 0 inside the container instead (gpustack issue 3352): host ids in it are
// an error, and without it a task uses all that it was given.
const VisibleEnv = "ASCEND_VISIBLE_DEVICES"

// OfficialCDIKind is taken by Huawei's own generator.
const OfficialCDIKind = "ascend.com/npu"

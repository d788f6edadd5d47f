package kunlun

// What a container needs to use a card, for the CDI generator. Paths are the
// host's; what is not there is left out. No generator of Kunlunxin's is known.
// Sources: the driver's installation guide (character devices of major 195) and
// what docker users of Kunlunxin's images pass (FlagPerf, PaddlePaddle).

// CardNode is the device node of a card, by Device.Minor. It has no meaning for
// a physical function whose virtual ones are in use.
const CardNode = "/dev/xpu%d"

// SharedNodes are needed beside any card.
var SharedNodes = []string{"/dev/xpuctrl"}

// Mounts are mounted read-only at the same path; libxpunvidia-ml.so.1 is a link
// into /usr/local/xpu and must be followed.
var Mounts = []string{"/usr/local/xpu", "/usr/local/bin/xpu_smi", "/usr/local/bin/xpu-smi"}

// VisibleEnv is what the frameworks read, counting from 0 inside the container;
// those that see the cards as CUDA's read CUDA_VISIBLE_DEVICES.
const VisibleEnv = "XPU_VISIBLE_DEVICES"

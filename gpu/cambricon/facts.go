package cambricon

// What a container needs to use a card, for the CDI generator. Paths are the
// host's; what is not there is left out. Source: Cambricon's device plugin
// (github.com/Cambricon/cambricon-k8s-device-plugin).

// CardNode is the device node of a card, by Device.Minor.
const CardNode = "/dev/cambricon_dev%d"

// CardExtraNode is a second node of a card, in drivers of version 5 and newer.
const CardExtraNode = "/dev/cambricon_ipcm%d"

// SharedNodes are needed beside any card.
var SharedNodes = []string{"/dev/cambricon_ctl", "/dev/cambricon_gdr"}

// Mounts are mounted read-only at the same path. The libraries (Neuware) are the
// image's own.
var Mounts = []string{"/usr/bin/cnmon"}

// VisibleEnv is what Cambricon's container runtime reads; the frameworks read
// MLU_VISIBLE_DEVICES, which counts from 0 inside the container.
const VisibleEnv = "CAMBRICON_VISIBLE_DEVICES"

// OfficialCDIKind is taken by Cambricon's device plugin (names mlu-<slot>).
const OfficialCDIKind = "cambricon.com/mlu"

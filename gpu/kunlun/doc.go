// Package kunlun detects and measures Kunlunxin XPUs by asking xpu_smi.
//
// It owns the forms of that tool's output: both tables, the nested list of -q,
// the lines of -m and -L, and the topology. It never changes a card's settings
// and starts no goroutine.
//
// # What xpu_smi is like
//
//   - It is also installed as xpu-smi, which is the name of Intel's tool for its
//     own GPUs: what it prints decides whose it is.
//   - A card's index is the number N of its node /dev/xpuN; gaps in it stay.
//   - A K200 is two devices with one PCI address, one serial and the power of the
//     board. With SR-IOV the physical function stays in the list, with the whole
//     memory, beside its virtual ones.
package kunlun

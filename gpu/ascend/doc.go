// Package ascend detects and measures Huawei Ascend NPUs by asking npu-smi.
//
// It owns the forms of npu-smi's output, of every generation from 310 to 950,
// and what a container needs to use a card. It never sets anything on a card
// and starts no goroutine.
//
// # What npu-smi is like
//
//   - A device is a chip, named by card ("NPU ID", sparse, up to four digits) and
//     chip. Its index here is its place in "npu-smi info".
//   - Errors are printed on stdout; the exit status is the low byte of the return
//     value, so it says that something failed but not what.
//   - A card whose queries fail is printed as a healthy, empty one; or it makes
//     the whole table disappear. See hollow and Detector.cardByCard.
//
// Facts about the tool are from Huawei's open driver, which contains its source
// (github.com/hicann/driver, src/custom/dev_prod/user/npucli), and from its
// manual in docs/en/Ascend_950_npu-smi there.
package ascend

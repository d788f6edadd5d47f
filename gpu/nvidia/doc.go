// Package nvidia knows NVIDIA's cards. Its Detector asks through a Source: the
// text of nvidia-smi (Text), or another way behind the same interface; what an
// Xid means for a card, and what makes a card sliceable, it decides itself.
//
// The package runs programs only through tool.Runner, and only those that read:
// it changes no mode, creates no instance, resets nothing and starts no daemon.
// It starts no goroutine.
//
// What the texts mean is in nvidia/smi and nvidia/mps, the policy on Xids in
// nvidia/xid.
package nvidia

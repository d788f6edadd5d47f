// Package nvml asks NVIDIA's driver through the helper heteroflow-nvml: it is a
// nvidia.Source, and the way to the CDI specs of NVIDIA's own generator. It sees
// more than nvidia-smi's text does (Xids, and seven cards beside a lost one) and
// starts no program in each round.
//
// Client owns one helper at most: it starts it with the first question, gives
// each question a deadline, and ends and replaces a helper that is late, dies,
// or talks nonsense, with growing pauses. While there is none, its errors wrap
// tool.ErrNotInstalled, so that the next source is asked; a driver that does not
// work is an answer, not such an error.
//
// The package changes nothing on a card and loads no library. It starts no
// goroutine beside those of tool.Process.
package nvml

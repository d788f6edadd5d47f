package tool

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// standardDirs are looked into first, in this order.
var standardDirs = []string{"/usr/bin", "/usr/local/bin", "/usr/sbin", "/usr/local/sbin", "/bin", "/sbin"}

// fallbackDirs are where a vendor's packages put a tool without putting it on
// PATH; a pattern's last match in name order is the highest version.
var fallbackDirs = map[string][]string{
	"nvidia-smi": {
		"/usr/lib/wsl/lib", // WSL2: not on root's PATH
		"/opt/cuda/bin",
		"/run/nvidia/driver/usr/bin",      // GPU operator's driver container
		"/run/current-system/sw/bin",      // NixOS
		"/home/kubernetes/bin/nvidia/bin", // GKE COS
		"/var/lib/nvidia/bin",
	},
	"nvidia-cuda-mps-control": {"/opt/cuda/bin", "/run/nvidia/driver/usr/bin", "/run/current-system/sw/bin"},
	"npu-smi":                 {"/usr/local/Ascend/driver/tools"},
	"hy-smi":                  {"/opt/hyhal/bin", "/usr/local/hyhal/bin", "/opt/dtk/bin", "/opt/dtk-*/bin"},
	"rocm-smi":                {"/opt/dtk/bin", "/opt/dtk-*/bin", "/opt/rocm/bin"},
	"cnmon":                   {"/usr/local/neuware/bin"},
	"xpu_smi":                 {"/usr/local/xpu/bin", "/opt/xre/bin"},
	"xpu-smi":                 {"/usr/local/xpu/bin", "/opt/xre/bin"},
	"mthreads-gmi":            {"/usr/local/musa/bin", "/usr/local/musa-*/bin"},
	"ixsmi":                   {"/usr/local/corex/bin", "/usr/local/corex-*/bin"},
	"mx-smi":                  {"/opt/mxdriver/bin", "/opt/maca/bin", "/opt/maca-*/bin"},
	"ht-smi":                  {"/opt/mxdriver/bin", "/opt/hpcc/bin", "/opt/htdriver/bin"},
	"efsmi":                   {"/opt/tops/bin"},
	"brsmi":                   {"/opt/birentech/bin", "/usr/local/birensupa/driver/biren-smi/bin"},
}

// Find returns the path, under the host root, of the tool named name: from the
// standard directories, then the vendors' own, then PATH. A name with a slash is
// taken as that path. It is not remembered: a driver may be installed at any time.
func (e *Exec) Find(name string) (string, error) {
	if strings.Contains(name, "/") {
		if e.executable(name) {
			return name, nil
		}
		return "", fmt.Errorf("%s: %w", name, ErrNotInstalled)
	}
	for _, dir := range standardDirs {
		if p := filepath.Join(dir, name); e.executable(p) {
			return p, nil
		}
	}
	for _, pattern := range fallbackDirs[name] {
		if p := e.lastMatch(filepath.Join(pattern, name)); p != "" {
			return p, nil
		}
	}
	if e.hostRoot == "" { // PATH is ours, not the host's
		for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
			if p := filepath.Join(dir, name); filepath.IsAbs(dir) && e.executable(p) {
				return p, nil
			}
		}
	}
	return "", fmt.Errorf("%s: %w", name, ErrNotInstalled)
}

// FindFirst returns the first of several names of one tool that is installed.
func FindFirst(r Runner, names ...string) (string, error) {
	var err error
	for _, name := range names {
		if _, err = r.Find(name); err == nil {
			return name, nil
		}
		if !errors.Is(err, ErrNotInstalled) {
			return "", err
		}
	}
	return "", fmt.Errorf("%s: %w", strings.Join(names, ", "), ErrNotInstalled)
}

// executable reports whether path, as the host sees it, is a program.
func (e *Exec) executable(path string) bool {
	if e.hostRoot != "" {
		path = resolveIn(e.hostRoot, path)
	}
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// compareVersions orders paths with the numbers in them by value: corex-4.9
// before corex-4.10.
func compareVersions(a, b string) int {
	for {
		i, j := strings.IndexAny(a, digits), strings.IndexAny(b, digits)
		if i < 0 || j < 0 || a[:i] != b[:j] {
			return strings.Compare(a, b)
		}
		var m, n string
		m, a = leadingDigits(a[i:])
		n, b = leadingDigits(b[j:])
		if c := cmp.Or(cmp.Compare(len(m), len(n)), strings.Compare(m, n)); c != 0 {
			return c
		}
	}
}

const digits = "0123456789"

// leadingDigits splits a number, without leading zeros, from what follows it.
func leadingDigits(s string) (number, rest string) {
	rest = strings.TrimLeft(s, digits)
	return strings.TrimLeft(s[:len(s)-len(rest)], "0"), rest
}

// lastMatch returns the highest-named executable that matches, as a path below
// the host root. Only the last directory's name may be a pattern.
func (e *Exec) lastMatch(pattern string) string {
	if !strings.Contains(pattern, "*") {
		if e.executable(pattern) {
			return pattern
		}
		return ""
	}
	matches, err := filepath.Glob(filepath.Join(e.hostRoot, pattern))
	if err != nil { // only for a malformed pattern, and the table has none
		return ""
	}
	slices.SortFunc(matches, compareVersions)
	for _, m := range slices.Backward(matches) {
		if p := strings.TrimPrefix(m, e.hostRoot); e.executable(p) {
			return p
		}
	}
	return ""
}

// maxLinks is the kernel's own bound on symbolic links in one path.
const maxLinks = 40

// resolveIn follows the symbolic links of path as they are meant below root:
// Debian's /usr/bin/nvidia-smi is an absolute link into /etc/alternatives, which
// must be read as the host's. It returns the path from our own root; one that
// does not exist, or has too many links, comes back as far as it goes.
func resolveIn(root, path string) string {
	done, rest := "/", strings.Split(filepath.Clean(path), "/")
	for links := 0; len(rest) > 0; {
		next := filepath.Join(done, rest[0])
		rest = rest[1:]
		target, err := os.Readlink(filepath.Join(root, next))
		if err != nil || links == maxLinks {
			done = next
			continue
		}
		links++
		if filepath.IsAbs(target) {
			done = "/"
		}
		rest = append(strings.Split(filepath.Clean(target), "/"), rest...)
	}
	return filepath.Join(root, done)
}

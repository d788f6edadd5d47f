package protocol

import (
	"slices"
	"time"
)

// FileAction is what a file request asks for.
type FileAction string

// The actions of a file request.
const (
	FileList          FileAction = "list"
	FileStat          FileAction = "stat"
	FileRead          FileAction = "read"
	FileChecksum      FileAction = "checksum"
	FileDownload      FileAction = "download"
	FileDelete        FileAction = "delete"
	FileContainerLogs FileAction = "container_logs"
)

// FileActions lists the actions this release knows.
func FileActions() []FileAction {
	return []FileAction{FileList, FileStat, FileRead, FileChecksum, FileDownload, FileDelete, FileContainerLogs}
}

// Known reports whether this release knows the action.
func (a FileAction) Known() bool { return slices.Contains(FileActions(), a) }

// MaxFileReadBytes bounds one read and one container_logs answer.
const MaxFileReadBytes = 1 << 20

// ChecksumAlgorithm is a digest over a file.
type ChecksumAlgorithm string

// The algorithms. An absent one is sha256.
const (
	ChecksumSHA256 ChecksumAlgorithm = "sha256"
	ChecksumMD5    ChecksumAlgorithm = "md5"
)

// ChecksumAlgorithms lists the algorithms this release knows.
func ChecksumAlgorithms() []ChecksumAlgorithm {
	return []ChecksumAlgorithm{ChecksumSHA256, ChecksumMD5}
}

// Known reports whether this release knows the algorithm.
func (a ChecksumAlgorithm) Known() bool { return slices.Contains(ChecksumAlgorithms(), a) }

// FileRequest reads, fetches or removes a file of the node, inside the same
// path fence as volume mounts. Which fields count depends on the action.
type FileRequest struct {
	Request
	Action    FileAction        `json:"action" doc:"What to do."`
	Path      string            `json:"path,omitempty" doc:"Absolute path on the node; all actions but container_logs."`
	Limit     int               `json:"limit,omitzero" doc:"list: most entries; 0 or absent: the agent's default."`
	Offset    int64             `json:"offset,omitzero" doc:"read: first byte."`
	Length    int64             `json:"length,omitzero" doc:"read: most bytes, at most 1 MiB; 0 or absent: 1 MiB."`
	Algorithm ChecksumAlgorithm `json:"algorithm,omitempty" doc:"checksum: digest; absent: sha256."`
	URL       string            `json:"url,omitempty" doc:"download: where from; the control plane's own origin unless the node is configured otherwise."`
	SHA256    string            `json:"sha256,omitempty" doc:"download: digest the file must have, hexadecimal."`
	SizeBytes *int64            `json:"size_bytes,omitzero" doc:"download: size the file must have, in bytes."`
	Overwrite bool              `json:"overwrite,omitempty" doc:"download: may replace a different file."`
	TaskID    string            `json:"task_id,omitempty" doc:"container_logs: the task."`
	Since     *time.Time        `json:"since,omitzero" doc:"container_logs: nothing older."`
	TailBytes int64             `json:"tail_bytes,omitzero" doc:"container_logs: most bytes from the end, at most 1 MiB; 0 or absent: 1 MiB."`
}

// FileResult is what a file request found or did.
type FileResult struct {
	Entries   []FileInfo        `json:"entries,omitzero" doc:"list: what the directory holds."`
	Truncated bool              `json:"truncated,omitempty" doc:"list, read, container_logs: there is more than was returned."`
	Info      *FileInfo         `json:"info,omitzero" doc:"stat, download: the file."`
	Data      []byte            `json:"data,omitempty" doc:"read, container_logs: the bytes, base64."`
	EOF       bool              `json:"eof,omitempty" doc:"read: the last byte of the file is included."`
	Algorithm ChecksumAlgorithm `json:"algorithm,omitempty" doc:"checksum: digest used."`
	Checksum  string            `json:"checksum,omitempty" doc:"checksum, download: digest, hexadecimal."`
	Deleted   bool              `json:"deleted,omitempty" doc:"delete: something was removed."`
}

// FileType is what a path names.
type FileType string

// The types of file.
const (
	FileRegular   FileType = "file"
	FileDirectory FileType = "directory"
	FileSymlink   FileType = "symlink"
	FileOther     FileType = "other"
)

// FileTypes lists the types this release knows.
func FileTypes() []FileType {
	return []FileType{FileRegular, FileDirectory, FileSymlink, FileOther}
}

// Known reports whether this release knows the type.
func (t FileType) Known() bool { return slices.Contains(FileTypes(), t) }

// FileInfo is one file of the node.
type FileInfo struct {
	Name       string    `json:"name" doc:"Name without its directory."`
	Type       FileType  `json:"type" doc:"What it is; symlinks are not followed."`
	SizeBytes  int64     `json:"size_bytes" doc:"Size in bytes."`
	Mode       string    `json:"mode" doc:"Permissions, octal (0644)."`
	ModifiedAt time.Time `json:"modified_at" doc:"When it changed."`
}

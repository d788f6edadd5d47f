package checkpoint

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
)

// Sizes of zip records (PKWARE APPNOTE.TXT 4.3).
const (
	zipEndLen      = 22 // end of central directory, without comment
	zipLocatorLen  = 20 // zip64 end of central directory locator
	zip64EndLen    = 56 // zip64 end of central directory
	zipCentralLen  = 46 // one entry of the central directory, without names
	zipMaxComment  = math.MaxUint16
	safetensorsMax = 100_000_000 // longest header the safetensors library reads
)

// errLegacy: a file from before torch 1.6 is a bare pickle, whose end cannot be known.
var errLegacy = errors.New("an old torch file, which cannot be tested without loading it")

// checkTorch tests that a file torch.save wrote is whole: a zip file ends with a directory
// of its content, which a cut-off write lacks.
func checkTorch(f *file) error {
	return checkZip(f, f.size)
}

func checkZip(r io.ReaderAt, size int64) error {
	if err := checkZipStart(r, size); err != nil {
		return err
	}
	end, at, err := findZipEnd(r, size)
	if err != nil {
		return err
	}
	count := uint64(binary.LittleEndian.Uint16(end[10:]))
	length := uint64(binary.LittleEndian.Uint32(end[12:]))
	offset := uint64(binary.LittleEndian.Uint32(end[16:]))
	limit := uint64(at)
	if count == math.MaxUint16 || length == math.MaxUint32 || offset == math.MaxUint32 {
		if count, length, offset, limit, err = readZip64End(r, at); err != nil {
			return err
		}
	}
	if count == 0 || offset > limit || length > limit-offset || length < zipCentralLen {
		return errors.New("cut off or damaged: its directory does not fit the file")
	}
	mark := make([]byte, 4)
	if _, err := r.ReadAt(mark, int64(offset)); err != nil {
		return err
	}
	if string(mark) != "PK\x01\x02" {
		return errors.New("damaged: its directory is not where it says")
	}
	return nil
}

func checkZipStart(r io.ReaderAt, size int64) error {
	head := make([]byte, min(4, size))
	if _, err := r.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	switch {
	case size == 0:
		return errors.New("empty")
	case bytes.HasPrefix(head, []byte{0x80, 0x02}):
		return errLegacy
	case !bytes.Equal(head, []byte("PK\x03\x04")):
		return errors.New("no torch file: it does not start as a zip archive")
	}
	return nil
}

// findZipEnd finds the last record. torch writes no comment after it, others may.
func findZipEnd(r io.ReaderAt, size int64) (end []byte, at int64, err error) {
	for _, tail := range []int64{zipEndLen, zipEndLen + zipMaxComment} {
		buf := make([]byte, min(tail, size))
		start := size - int64(len(buf))
		if _, err := r.ReadAt(buf, start); err != nil && !errors.Is(err, io.EOF) {
			return nil, 0, err
		}
		for i := len(buf) - zipEndLen; i >= 0; i-- {
			if !bytes.HasPrefix(buf[i:], []byte("PK\x05\x06")) {
				continue
			}
			if comment := int(binary.LittleEndian.Uint16(buf[i+20:])); i+zipEndLen+comment == len(buf) {
				return buf[i : i+zipEndLen], start + int64(i), nil
			}
		}
	}
	return nil, 0, errors.New("cut off: a zip archive without its end")
}

func readZip64End(r io.ReaderAt, endAt int64) (count, length, offset, limit uint64, err error) {
	damaged := errors.New("cut off or damaged: a large archive without its end")
	locator := make([]byte, zipLocatorLen)
	if endAt < zipLocatorLen {
		return 0, 0, 0, 0, damaged
	}
	if _, err := r.ReadAt(locator, endAt-zipLocatorLen); err != nil {
		return 0, 0, 0, 0, err
	}
	at := binary.LittleEndian.Uint64(locator[8:])
	if string(locator[:4]) != "PK\x06\x07" || at > uint64(endAt-zipLocatorLen) {
		return 0, 0, 0, 0, damaged
	}
	end := make([]byte, zip64EndLen)
	if _, err := r.ReadAt(end, int64(at)); err != nil {
		return 0, 0, 0, 0, err
	}
	if string(end[:4]) != "PK\x06\x06" {
		return 0, 0, 0, 0, damaged
	}
	return binary.LittleEndian.Uint64(end[32:]), binary.LittleEndian.Uint64(end[40:]), binary.LittleEndian.Uint64(end[48:]), at, nil
}

// checkSafetensors tests that the file is exactly as long as its header says.
func checkSafetensors(f *file) error {
	prefix, err := f.at(0, 8)
	if err != nil {
		return errors.New("cut off: no header")
	}
	n := binary.LittleEndian.Uint64(prefix)
	if n > safetensorsMax || int64(n) > f.size-8 {
		return fmt.Errorf("cut off or damaged: a header of %d bytes in a file of %d", n, f.size)
	}
	header, err := f.at(8, int64(n))
	if err != nil {
		return err
	}
	data, err := safetensorsData(header)
	if err != nil {
		return err
	}
	if want := 8 + int64(n) + data; want != f.size {
		return fmt.Errorf("cut off or damaged: %d bytes, its header says %d", f.size, want)
	}
	return nil
}

// safetensorsData is the length of the tensors a header lists.
func safetensorsData(header []byte) (int64, error) {
	var tensors map[string]struct {
		Offsets []int64 `json:"data_offsets"`
	}
	if err := json.Unmarshal(header, &tensors); err != nil {
		return 0, fmt.Errorf("parse safetensors header: %w", err)
	}
	var end int64
	for name, tensor := range tensors {
		if name == "__metadata__" {
			continue
		}
		if o := tensor.Offsets; len(o) != 2 || o[0] < 0 || o[1] < o[0] || o[1] > math.MaxInt64/2 {
			return 0, fmt.Errorf("tensor %q has no valid data_offsets", name)
		}
		end = max(end, tensor.Offsets[1])
	}
	return end, nil
}

// pythonJSON turns what Python's json module writes into JSON: it writes the floats NaN,
// Infinity and -Infinity by these names, and a loss does become NaN.
func pythonJSON(data []byte) []byte {
	var out []byte
	inString := false
	for i := 0; i < len(data); i++ {
		if inString {
			if data[i] == '\\' && i+1 < len(data) {
				out = append(out, data[i])
				i++
			} else if data[i] == '"' {
				inString = false
			}
			out = append(out, data[i])
			continue
		}
		for _, word := range []string{"NaN", "Infinity", "-Infinity"} {
			if bytes.HasPrefix(data[i:], []byte(word)) {
				out = append(out, "null"...)
				i += len(word)
				break
			}
		}
		if i < len(data) {
			inString = data[i] == '"'
			out = append(out, data[i])
		}
	}
	return out
}

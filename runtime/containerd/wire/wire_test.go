package wire_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/heteroflow/node-agent/runtime/containerd/wire"
)

func TestFieldsAreReadAsProtobufSays(t *testing.T) {
	type fields struct {
		Varint  uint64
		Bytes   string
		Message wire.Message
	}
	cases := map[string]struct {
		data  string
		want  fields // of field 1
		fails bool
	}{
		"nothing":                   {"", fields{}, false},
		"an integer":                {"\x08\x96\x01", fields{Varint: 150}, false},
		"the last integer counts":   {"\x08\x01\x08\x02", fields{Varint: 2}, false},
		"the last bytes count":      {"\x0a\x01a\x0a\x01b", fields{Bytes: "b", Message: wire.Message("ab")}, false},
		"an empty message is there": {"\x0a\x00", fields{Message: wire.Message{}}, false},
		"others are skipped":        {"\x10\x07\x1a\x01x\x25\x01\x02\x03\x04\x08\x05", fields{Varint: 5}, false},
		"a tag that is cut":         {"\x80", fields{}, true},
		"an integer that is cut":    {"\x08\x96", fields{}, true},
		"a length beyond the end":   {"\x0a\x05ab", fields{}, true},
		"field number zero":         {"\x00\x01", fields{}, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			m := wire.Message(tc.data)
			varint, err1 := m.Varint(1)
			bytes, err2 := m.Bytes(1)
			message, err3 := m.Message(1)
			if diff := cmp.Diff(tc.want, fields{varint, string(bytes), message}); diff != "" {
				t.Error(diff)
			}
			for _, err := range []error{err1, err2, err3} {
				if (err != nil) != tc.fails {
					t.Errorf("error %v", err)
				}
			}
		})
	}
}

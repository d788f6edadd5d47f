// Package wire reads single fields out of encoded protobuf messages, for the log shim: the
// messages' generated types would cost each start of a task 10 ms. It decodes as they do:
// of a field that is there twice the last counts, messages are merged, and what has
// another type than the field's is skipped. It starts no goroutines.
package wire

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// Message is an encoded message.
type Message []byte

// Varint returns an integer, and 0 when the message does not have it.
func (m Message) Varint(field protowire.Number) (v uint64, err error) {
	err = m.each(field, protowire.VarintType, func(value []byte) {
		v, _ = protowire.ConsumeVarint(value) // each has measured it
	})
	return v, err
}

// Bytes returns a string or bytes, and none when the message does not have it.
func (m Message) Bytes(field protowire.Number) (v []byte, err error) {
	err = m.each(field, protowire.BytesType, func(value []byte) {
		v, _ = protowire.ConsumeBytes(value) // each has measured it
	})
	return v, err
}

// Message returns a message within the message, nil when it does not have it.
func (m Message) Message(field protowire.Number) (v Message, err error) {
	err = m.each(field, protowire.BytesType, func(value []byte) {
		part, _ := protowire.ConsumeBytes(value) // each has measured it
		if v == nil {
			v = Message{}
		}
		v = append(v, part...) // messages put one behind the other are merged
	})
	return v, err
}

// each calls found with the value of each such field.
func (m Message) each(field protowire.Number, kind protowire.Type, found func(value []byte)) error {
	for rest := []byte(m); len(rest) > 0; {
		number, is, n := protowire.ConsumeTag(rest)
		if n < 0 {
			return fmt.Errorf("decode message: %w", protowire.ParseError(n))
		}
		rest = rest[n:]
		if n = protowire.ConsumeFieldValue(number, is, rest); n < 0 {
			return fmt.Errorf("decode field %d: %w", number, protowire.ParseError(n))
		}
		if number == field && is == kind {
			found(rest[:n])
		}
		rest = rest[n:]
	}
	return nil
}

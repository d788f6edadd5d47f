//go:build cgo

package main

import (
	"encoding/json"
	"io"

	"github.com/heteroflow/node-agent/gpu/nvidia/nvml/wire"
)

// once prints the answer to one question for a person.
func (h *helper) once(question, root string, out io.Writer) error {
	req := wire.Request{Method: wire.MethodCards}
	var params any = wire.CardsParams{Full: question == "full"}
	if question == wire.MethodCDI {
		req.Method, params = wire.MethodCDI, wire.CDIParams{Vendor: "nvidia.com", Class: "gpu", Root: root}
	}
	var err error
	if req.Params, err = json.Marshal(params); err != nil {
		return err
	}
	result, failure := h.answer(req)
	if failure != nil {
		return failure
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(result)
}

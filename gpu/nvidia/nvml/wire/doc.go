// Package wire is what the agent and its NVIDIA helper, heteroflow-nvml, say to
// each other: one JSON object a line, requests on the helper's standard input,
// one response to each on its standard output, in order. It holds types and
// bounds only.
//
// The first request is MethodHello. Each side refuses another Version than its
// own: both come from one build, and a mixed pair is an upgrade half done. The
// helper ends when its input does.
//
// What NVML reports goes over the wire as NVML has it, units and return codes
// included: what it means for a card is decided once, by the agent's side.
package wire

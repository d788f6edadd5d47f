package ascend

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/tool"
)

// maxExplained bounds the extra commands of a round: a node on which more chips
// are ill has one cause, which these name.
const maxExplained = 4

// hung returns the error of a query that may fail if it must end the round all
// the same: the driver hangs.
func hung(err error) error {
	if e, ok := errors.AsType[*tool.HungError](err); ok {
		return e
	}
	return nil
}

// question asks about one card. What goes wrong with the card is the answer's
// CollectorError; an error is a hung driver, or that there is no time left.
func (d *Detector) question(ctx context.Context, args ...string) (gpu.Parsed, error) {
	p, err := d.ask(ctx, args...)
	switch {
	case err == nil:
		return p, nil
	case hung(err) != nil:
		return p, hung(err)
	case ctx.Err() != nil:
		return p, err
	}
	code := gpu.CodeToolFailed
	if _, timeout := errors.AsType[*tool.TimeoutError](err); timeout {
		code = gpu.CodeToolTimeout
	}
	return gpu.Parsed{CollectorError: &gpu.CollectorError{Code: code, Message: err.Error()}}, nil
}

// health asks for a chip's health and error codes. The 950 has no "-c".
func (d *Detector) health(ctx context.Context, card int, chip *int) (gpu.Parsed, error) {
	args := []string{"-t", "health", "-i", fmt.Sprint(card)}
	if chip != nil {
		p, err := d.question(ctx, append(args, "-c", fmt.Sprint(*chip))...)
		if err != nil || p.CollectorError == nil || *chip > 0 {
			return p, err
		}
	}
	return d.question(ctx, args...)
}

// explain asks each chip that is not well for its error codes, and puts the
// answer in place of the bare health word.
func (d *Detector) explain(ctx context.Context, p *gpu.Parsed) error {
	asked := 0
	for i := range p.Failures {
		f := &p.Failures[i]
		g := byIndex(p.GPUs, f.Index)
		if g == nil || g.Card == nil || !strings.HasPrefix(f.Code, codeHealth) || asked == maxExplained {
			continue
		}
		asked++
		answer, err := d.health(ctx, *g.Card, g.Chip)
		if err != nil {
			return hung(err) // no time left: the bare words stand
		}
		for _, detail := range answer.Failures {
			if detail.Code == f.Code {
				f.Message = detail.Message
			}
		}
	}
	return nil
}

// cardByCard is for the node on which one card makes "npu-smi info" print
// nothing but errors: the chips are listed by -m and asked one by one, so that
// the bad one is known and the others stay visible. Without that list, or the
// time for all of them, the error of the table stands: no card is blamed for it.
func (d *Detector) cardByCard(ctx context.Context, table gpu.Parsed) (gpu.Parsed, error) {
	rows, err := d.mapping(ctx)
	if err != nil || len(rows) == 0 {
		return table, err
	}
	var p gpu.Parsed
	common := map[int]gpu.Parsed{}
	for i, m := range rows {
		answer, asked := common[*m.card]
		if !asked {
			if answer, err = d.question(ctx, "-t", "common", "-i", fmt.Sprint(*m.card)); err != nil {
				return table, hung(err)
			}
			common[*m.card] = answer
		}
		health, err := d.health(ctx, *m.card, m.chip)
		if err != nil {
			return table, hung(err)
		}
		addChip(&p, m.device(i), answer, health)
	}
	return p, nil
}

// addChip adds a chip with what two queries said of it.
func addChip(p *gpu.Parsed, g gpu.Device, common, health gpu.Parsed) {
	p.GPUs = append(p.GPUs, g)
	s := gpu.Stats{Index: g.Index}
	for _, b := range common.GPUs {
		if row := rowOf(common, b); row != nil && (b.Chip == nil || equal(b.Chip, g.Chip)) {
			s.Temperature, s.Utilization, s.Power = row.Temperature, row.Utilization, row.Power
		}
	}
	if len(health.GPUs) == 1 {
		if row := rowOf(health, health.GPUs[0]); row != nil {
			s.Health, s.HealthMessage = row.Health, row.HealthMessage
		}
	}
	if measured(s) {
		p.Stats = append(p.Stats, s)
	}
	for _, f := range health.Failures {
		p.Failures = append(p.Failures, failure(g, f.Code, f.Message))
	}
	for _, answer := range []gpu.Parsed{common, health} {
		if e := answer.CollectorError; e != nil {
			p.Failures = append(p.Failures, failure(g, e.Code, e.Message))
			return
		}
	}
}

func rowOf(p gpu.Parsed, g gpu.Device) *gpu.Stats {
	for i := range p.Stats {
		if equal(p.Stats[i].Index, g.Index) {
			return &p.Stats[i]
		}
	}
	return nil
}

func byIndex(devices []gpu.Device, index *int) *gpu.Device {
	for i := range devices {
		if index != nil && equal(devices[i].Index, index) {
			return &devices[i]
		}
	}
	return nil
}

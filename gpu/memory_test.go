package gpu

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// history runs rounds of one vendor against a memory.
type history struct {
	t     *testing.T
	store *store
	m     *memory
	now   time.Time
	onBus map[string]bool
}

func newHistory(t *testing.T) *history {
	s := &store{}
	return &history{
		t: t, store: s, m: &memory{store: s}, onBus: map[string]bool{},
		now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
	}
}

// round is one round; it returns the failures without their messages' text.
func (h *history) round(devices []Device, failures ...Failure) []Failure {
	h.t.Helper()
	h.now = h.now.Add(10 * time.Second)
	rep := Report{Vendor: NVIDIA, At: h.now, Devices: devices, Failures: failures}
	if err := h.m.check(&rep, func(busID string) bool { return h.onBus[busID] }); err != nil {
		h.t.Fatal(err)
	}
	for i := range rep.Failures {
		if rep.Failures[i].Message == "" {
			h.t.Errorf("failure without a message: %+v", rep.Failures[i])
		}
		rep.Failures[i].Message = ""
	}
	return rep.Failures
}

func (h *history) want(name string, got []Failure, want ...Failure) {
	h.t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		h.t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

func missing(i int) Failure {
	return Failure{Index: new(i), UUID: card(NVIDIA, i).UUID, BusID: bus(i), Code: CodeMissing}
}

func withoutIndex(f Failure) Failure {
	f.Index = nil
	return f
}

func cards(is ...int) []Device {
	var list []Device
	for _, i := range is {
		list = append(list, card(NVIDIA, i))
	}
	return list
}

func TestARowThatSilentlyVanishedIsAFailureUntilItReturns(t *testing.T) {
	h := newHistory(t)
	h.want("first round", h.round(cards(0, 1, 2)))
	h.want("card 2 gone", h.round(cards(0, 1)), missing(2))
	h.want("still gone", h.round(cards(0, 1)), missing(2))
	h.want("back", h.round(cards(0, 1, 2)))
}

func TestTheIndexOfAMissingCardIsNotGivenWhenAnotherCardHasItNow(t *testing.T) {
	h := newHistory(t)
	h.round(cards(0, 1, 2))
	shifted := card(NVIDIA, 2)
	shifted.Index = new(1)
	h.want("card 1 gone", h.round([]Device{card(NVIDIA, 0), shifted}), withoutIndex(missing(1)))
}

func TestMissingCardsAreRememberedOverARestart(t *testing.T) {
	h := newHistory(t)
	h.round(cards(0, 1))
	if h.store.saves != 1 {
		t.Errorf("%d saves", h.store.saves)
	}
	h.round(cards(0, 1))
	if h.store.saves != 1 {
		t.Error("a round without a change is saved")
	}
	h.m = &memory{store: h.store, cards: h.store.cards}
	h.want("after the restart", h.round(cards(0)), missing(1))
	since := h.store.cards[1].MissingSince
	h.m = &memory{store: h.store, cards: h.store.cards}
	h.round(cards(0))
	if !h.store.cards[1].MissingSince.Equal(since) {
		t.Error("a restart begins the time of missing anew")
	}
}

func TestAMissingCardIsForgottenAfterADayUnlessTheBusShowsIt(t *testing.T) {
	h := newHistory(t)
	h.onBus[bus(1)] = true
	h.round(cards(0, 1, 2))
	h.round(cards(0))
	h.now = h.now.Add(ForgetAfter - time.Minute)
	h.want("within the day", h.round(cards(0)), missing(1), missing(2))
	h.now = h.now.Add(time.Minute)
	h.want("after the day", h.round(cards(0)), missing(1))
	delete(h.onBus, bus(1))
	h.want("gone from the bus as well", h.round(cards(0)))
	if len(h.store.cards) != 1 {
		t.Errorf("remembered: %+v", h.store.cards)
	}
}

func TestAReplacedOrMovedCardIsNotMissed(t *testing.T) {
	h := newHistory(t)
	h.round(cards(0, 1))
	other := card(NVIDIA, 1)
	other.UUID = "nvidia-new"
	h.want("another card in slot 1", h.round([]Device{card(NVIDIA, 0), other}))
	moved := other
	moved.BusID = bus(5)
	h.want("the same card in slot 5", h.round([]Device{card(NVIDIA, 0), moved}))
	if len(h.store.cards) != 2 {
		t.Errorf("remembered: %+v", h.store.cards)
	}
}

func TestAFailureThatTheToolReportedIsNotReportedTwiceButCompleted(t *testing.T) {
	h := newHistory(t)
	h.round(cards(0, 1))
	h.want("by bus id", h.round(cards(0), Failure{BusID: bus(1), Code: "gpu_lost", Message: "x"}),
		Failure{BusID: bus(1), UUID: "nvidia-1", Code: "gpu_lost"})
	h.want("by index", h.round(cards(0), Failure{Index: new(1), Code: "gpu_lost", Message: "x"}),
		Failure{Index: new(1), BusID: bus(1), UUID: "nvidia-1", Code: "gpu_lost"})
}

func TestDevicesThatShareABusIDAreCounted(t *testing.T) {
	h := newHistory(t)
	two := []Device{
		{Index: new(0), BusID: bus(0), Chip: new(0)}, {Index: new(1), BusID: bus(0), Chip: new(1)}, // chips of a card
		{Index: new(2), BusID: bus(1)}, {Index: new(3), BusID: bus(1)}, // nothing but the index tells them apart
	}
	h.want("all", h.round(two))
	h.want("a chip gone", h.round([]Device{two[0], two[2], two[3]}),
		Failure{Index: new(1), BusID: bus(0), Code: CodeMissing})
	h.want("and one of the other two", h.round([]Device{two[0], two[3]}),
		Failure{Index: new(1), BusID: bus(0), Code: CodeMissing},
		Failure{Index: new(2), BusID: bus(1), Code: CodeMissing})
}

func TestTheUUIDIsLearntWhenAToolBeginsToNameIt(t *testing.T) {
	h := newHistory(t)
	nameless := card(NVIDIA, 0)
	nameless.UUID = ""
	h.round([]Device{nameless})
	h.want("named", h.round(cards(0)))
	h.want("nameless again", h.round([]Device{nameless}))
	h.want("gone", h.round(nil), missing(0))
}

func TestAFailingToolDoesNotMakeCardsMissing(t *testing.T) {
	d := detector(NVIDIA, lists(cards(0, 1)...))
	r := registry(t, Config{Detectors: []Detector{d}})
	r.Detect(t.Context(), second)
	d.set(fails(errors.New("driver busy")))
	if s := r.Detect(t.Context(), second); len(s.Failures) != 0 || s.CollectorError == "" {
		t.Errorf("got %+v", s)
	}
	d.set(notInstalled) // the driver was removed
	if s := r.Detect(t.Context(), second); len(s.Failures) != 2 || s.Type != NVIDIA {
		t.Errorf("got %+v", s)
	}
}

func TestAStoreThatFailsIsNotFatal(t *testing.T) {
	broken := &store{err: errors.New("read-only file system")}
	r := registry(t, Config{Store: broken, Detectors: []Detector{detector(NVIDIA, lists(cards(0)...))}})
	if s := r.Detect(t.Context(), second); len(s.Devices) != 1 || s.CollectorError != "" {
		t.Errorf("got %+v", s)
	}
	if broken.saves == 0 {
		t.Error("it was not tried")
	}
}

package gpu

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var periods = Periods{Collect: 10 * time.Second, Inventory: 5 * time.Minute, Deadline: 20 * time.Second}

// collect runs a Collector in a bubble until the test's end.
func collect(t *testing.T, detectors ...Detector) *Collector {
	t.Helper()
	c := NewCollector(registry(t, Config{Detectors: detectors}), periods)
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { c.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	synctest.Wait()
	return c
}

func TestAHungVendorDelaysNeitherLatestNorTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := collect(t, detector(Ascend, hangs), detector(NVIDIA, lists(cards(0)...)), fallback())
		s := c.Latest()
		if s.Type != NVIDIA || len(s.Devices) != 1 || s.CollectorError != "" {
			t.Errorf("while the first round hangs: %+v", s)
		}
		select {
		case <-c.Ready():
			t.Error("ready before every vendor has answered")
		default:
		}
		time.Sleep(periods.Deadline)
		synctest.Wait()
		<-c.Ready()
		if s = c.Latest(); !strings.HasPrefix(s.CollectorError, "ascend: "+CodeToolTimeout) || len(s.Devices) != 1 {
			t.Errorf("after its deadline: %+v", s)
		}
	})
}

func TestLastGoodValuesAreReportedForThreePeriodsThenAbsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := detector(NVIDIA, lists(cards(0)...))
		c := collect(t, d, fallback())
		d.set(fails(context.DeadlineExceeded))
		for range 3 {
			time.Sleep(periods.Collect)
			synctest.Wait()
			s := c.Latest()
			if len(s.Devices) != 1 || len(s.Stats) != 1 || s.CollectorError == "" {
				t.Fatalf("values of %s ago: %+v", s.Vendors[0].Age, s)
			}
		}
		if age := c.Latest().Vendors[0].Age; age != 3*periods.Collect {
			t.Errorf("age %s", age)
		}
		time.Sleep(time.Second)
		if s := c.Latest(); len(s.Devices) != 0 || len(s.Stats) != 0 || s.Type != NVIDIA || s.CollectorError == "" {
			t.Errorf("older values: %+v", s)
		}
		d.set(lists(cards(0)...))
		time.Sleep(periods.Collect)
		synctest.Wait()
		if s := c.Latest(); len(s.Devices) != 1 || s.CollectorError != "" {
			t.Errorf("after the recovery: %+v", s)
		}
	})
}

func TestValuesGrowOldWhileARoundHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := detector(NVIDIA, lists(cards(0)...))
		c := collect(t, d)
		release := make(chan struct{})
		d.set(func(context.Context) (Report, error) { // it does not even heed its deadline
			<-release
			return Report{}, nil
		})
		time.Sleep(staleAfter*periods.Collect + time.Second)
		synctest.Wait()
		if s := c.Latest(); len(s.Devices) != 0 || !strings.Contains(s.CollectorError, CodeToolHung) {
			t.Errorf("got %+v", s)
		}
		close(release)
		synctest.Wait()
	})
}

func TestAVirtualGPUIsNotReportedBeforeEveryVendorHasAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := detector(NVIDIA, func(ctx context.Context) (Report, error) {
			time.Sleep(5 * time.Second)
			return notInstalled(ctx)
		})
		c := collect(t, slow, fallback())
		if s := c.Latest(); s.Type != "" || len(s.Devices) != 0 {
			t.Errorf("too early: %+v", s)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if s := c.Latest(); s.Type != Virtual || len(s.Devices) != 1 {
			t.Errorf("got %+v", s)
		}
	})
}

func TestADriverInstalledLaterIsFoundWithoutARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := detector(NVIDIA, notInstalled)
		c := collect(t, d, fallback())
		if s := c.Latest(); s.Type != Virtual {
			t.Fatalf("type %q", s.Type)
		}
		d.set(lists(cards(0)...))
		time.Sleep(periods.Collect)
		synctest.Wait()
		if s := c.Latest(); s.Type != NVIDIA || len(s.Devices) != 1 {
			t.Errorf("got %+v", s)
		}
		d.set(notInstalled) // and removed again: the card is missed, the node keeps its type
		time.Sleep(periods.Collect)
		synctest.Wait()
		if s := c.Latest(); s.Type != NVIDIA || len(s.Failures) != 1 {
			t.Errorf("got %+v", s)
		}
	})
}

func TestAnInventoryIsTakenAtTheStartWhenCardsChangeAndNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := detector(NVIDIA, lists(cards(0, 1)...))
		c := collect(t, d)
		want := func(when string, inventories int) {
			t.Helper()
			synctest.Wait()
			if got, _ := d.rounds(); got != inventories {
				t.Errorf("%s: %d inventories, want %d", when, got, inventories)
			}
		}
		want("at the start", 1)
		time.Sleep(3 * periods.Collect)
		want("in ordinary rounds", 1)
		d.set(lists(cards(0)...))
		time.Sleep(2 * periods.Collect)
		want("when a card is gone", 2)
		if err := c.Renew(t.Context()); err != nil {
			t.Error(err)
		}
		want("when asked for", 3)
		time.Sleep(periods.Inventory)
		want("after the period", 4)
		if _, collects := d.rounds(); collects < 25 {
			t.Errorf("%d rounds in five minutes", collects)
		}
	})
}

func TestRenewWaitsForARoundThatBeganAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		slow := detector(NVIDIA, lists(cards(0)...))
		slow.set(func(ctx context.Context) (Report, error) {
			<-release
			return lists(cards(0)...)(ctx)
		})
		c := collect(t, slow, detector(Ascend, lists(cards(0)...)))
		var renewed atomic.Bool
		go func() {
			if err := c.Renew(t.Context()); err != nil {
				t.Error(err)
			}
			renewed.Store(true)
		}()
		synctest.Wait()
		release <- struct{}{} // the round that was under way
		synctest.Wait()
		if renewed.Load() {
			t.Error("a round that had begun before counted")
		}
		release <- struct{}{}
		synctest.Wait()
		if !renewed.Load() {
			t.Error("the new round has ended, and it waits")
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("given up"))
		defer cancel()
		if err := c.Renew(ctx); err == nil || err.Error() != "given up" {
			t.Errorf("got %v, want why the wait ended", err)
		}
		close(release)
	})
}

// An inventory that finds more than a round does (another command lists a card)
// must not make every round an inventory.
func TestARoundThatAlwaysShowsLessThanTheInventoryIsNotAChangeEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &lopsided{}
		c := NewCollector(registry(t, Config{Detectors: []Detector{d}}), periods)
		ctx, cancel := context.WithTimeout(t.Context(), 10*periods.Collect+time.Second)
		defer cancel()
		c.Run(ctx)
		if d.inventories > 2 {
			t.Errorf("%d inventories", d.inventories)
		}
	})
}

type lopsided struct {
	fake

	inventories int
}

func (*lopsided) Vendor() Vendor { return NVIDIA }

func (l *lopsided) Inventory(ctx context.Context) (Report, error) {
	l.inventories++
	return lists(cards(0, 1)...)(ctx)
}

func (*lopsided) Collect(ctx context.Context) (Report, error) { return lists(cards(0)...)(ctx) }

func TestASlowVendorIsGivenAPauseBetweenRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := detector(NVIDIA, func(ctx context.Context) (Report, error) {
			time.Sleep(15 * time.Second) // longer than the period
			return lists(cards(0)...)(ctx)
		})
		collect(t, d)
		time.Sleep(175 * time.Second) // ten rounds of 15 s with 2.5 s between them
		synctest.Wait()
		if inventories, collects := d.rounds(); inventories+collects != 11 {
			t.Errorf("%d rounds", inventories+collects)
		}
	})
}

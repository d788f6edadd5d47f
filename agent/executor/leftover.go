package executor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/heteroflow/node-agent/agent/taskcontainer"
)

// A container that the runtime cannot remove ("device or resource busy", "dead") may stay
// until the machine is booted. It is tried again at growing intervals, so that neither the
// log nor the control plane hears of it each minute.
const (
	leftoverPause    = time.Minute
	leftoverMaxPause = time.Hour
	// leftoverGrace is how long after its time the next try may come. When none has come by
	// then, somebody else has removed the container.
	leftoverGrace = 10 * time.Minute
)

// leftovers are the tasks, by id, whose container could not be removed.
type leftovers struct {
	mu sync.Mutex
	of map[string]leftover
}

type leftover struct {
	pause time.Duration
	due   time.Time // when removing it is to be tried again
}

// add notes that a container could not be removed, and returns how long it is left alone.
func (l *leftovers) add(taskID string, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	pause := leftoverPause
	if earlier, ok := l.of[taskID]; ok {
		pause = min(2*earlier.pause, leftoverMaxPause)
	}
	if l.of == nil {
		l.of = make(map[string]leftover)
	}
	l.of[taskID] = leftover{pause: pause, due: now.Add(pause)}
	return pause
}

func (l *leftovers) drop(taskID string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.of, taskID)
}

// waits reports whether it is too early to try again.
func (l *leftovers) waits(taskID string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return now.Before(l.of[taskID].due)
}

// names are those of the containers.
func (l *leftovers) names(now time.Time) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.of, func(_ string, c leftover) bool { return now.After(c.due.Add(leftoverGrace)) })
	var names []string
	for id := range l.of {
		names = append(names, taskcontainer.Name(id))
	}
	slices.Sort(names)
	return names
}

// Trouble says what the operator has to see to, or nothing.
func (e *Executor) Trouble() string {
	names := e.leftovers.names(time.Now())
	if len(names) == 0 {
		return ""
	}
	const most = 5
	more := ""
	if len(names) > most {
		names, more = names[:most], fmt.Sprintf(" and %d more", len(names)-most)
	}
	return fmt.Sprintf("the container runtime cannot remove %s%s; its log says why", strings.Join(names, ", "), more)
}

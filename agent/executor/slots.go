package executor

// Slots bound how many tasks of this node are at work at once: launches and wakes take one,
// and a task has it until it is asleep, owes only its result, or is over. What is found at
// work already, by adoption, counts whatever the bound is. A wake that waits for a slot
// comes before a new claim: its task is this node's already.

// room is how many more tasks may be claimed now.
func (e *Executor) room() int {
	if e.Drained() {
		return 0
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.adopted || e.closing {
		return 0
	}
	return e.freeSlots(true)
}

// beginClaim takes a slot for a claim on its way, if there is room for one.
func (e *Executor) beginClaim() bool {
	if e.room() == 0 {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.claiming = true // there is one claim at a time, so that nobody can have been faster
	return true
}

// endClaim gives that slot back: a task that was won has one by now.
func (e *Executor) endClaim() {
	e.mu.Lock()
	e.claiming = false
	e.mu.Unlock()
	e.slotFreed()
}

// beginWake takes a slot for a task that is to be woken, if one is free.
func (e *Executor) beginWake(t *task) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.freeSlots(false) == 0 {
		return false
	}
	t.enter(Waking)
	return true
}

// freeSlots counts what is left of the slots; for a claim, without those that wakes wait
// for. The caller holds e.mu.
func (e *Executor) freeSlots(forClaim bool) int {
	busy := 0
	if e.claiming {
		busy++
	}
	for _, t := range e.tasks {
		if t.phaseNow().holdsSlot() || forClaim && t.waitsToWake() {
			busy++
		}
	}
	return max(0, e.Workers-busy)
}

// slotFreed tells those who wait for a slot.
func (e *Executor) slotFreed() {
	for _, t := range e.owned() {
		if t.waitsToWake() {
			t.nudge()
		}
	}
}

// waitsToWake reports whether the task is asleep and to be woken.
func (t *task) waitsToWake() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.phase == Asleep && t.view.wakes()
}

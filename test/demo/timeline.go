package main

import (
	"fmt"
	"time"
)

// say prints one line of the timeline, as of now.
func (s *show) say(who, what string) { s.sayAt(time.Now(), who, what) }

// sayAt prints one line of the timeline: seconds since the start, who, what.
func (s *show) sayAt(at time.Time, who, what string) {
	fmt.Printf("%7.2f s  %-11s %s\n", at.Sub(s.begun).Seconds(), who, what)
}

package protocol

// WakeReply answers the held request: counts of what waits for this node in
// each channel. It carries no instruction itself.
type WakeReply struct {
	Cursor  string `json:"cursor" doc:"To be sent with the next wake request; opaque."`
	Tasks   int    `json:"tasks" doc:"Tasks in status scheduled."`
	Intents int    `json:"intents" doc:"Tasks this node holds whose wanted state changed after the cursor: stopping, sleeping, waking, cancelled or assigned away while held, or deleted."`
	Files   int    `json:"files" doc:"Pending file requests."`
	Slices  int    `json:"slices" doc:"Pending slice requests."`
	Images  int    `json:"images" doc:"Pending image requests."`
}

// Empty reports whether nothing waits in any channel.
func (r WakeReply) Empty() bool {
	return r.Tasks == 0 && r.Intents == 0 && r.Files == 0 && r.Slices == 0 && r.Images == 0
}

package registry

// Row is one tool of the inventory.
type Row struct {
	Tool        string `json:"tool"`
	Server      string `json:"server"`
	Read        bool   `json:"read"`
	Write       bool   `json:"write"`
	Destructive bool   `json:"destructive"`
	Financial   bool   `json:"financial"`
	Sink        bool   `json:"sink"`
	Unmarked    bool   `json:"unmarked"`
	Quarantined string `json:"quarantined,omitempty"` // why, if it is
	Place       string `json:"place"`
}

// Inventory lists every tool that is named, by name, with its marks. A loaded
// registry has no unmarked tool, since that is an error; the column is there for
// those who count.
func (s *Snapshot) Inventory() []Row {
	var out []Row
	for _, name := range sortedKeysOf(s.all) {
		t := s.all[name]
		out = append(out, Row{
			Tool: t.Name, Server: t.Server, Read: t.Read, Write: t.Write, Destructive: t.Destructive,
			Financial: t.Financial, Sink: t.Sink, Unmarked: len(marksOf(t)) == 0,
			Quarantined: s.quarantined[name], Place: t.Place,
		})
	}
	return out
}

package registry

import "github.com/placet-dev/placet/yamlfile"

// DispatchMode says when an allowed call runs.
type DispatchMode string

const (
	DispatchAtOnce DispatchMode = "at_once"
	DispatchQueued DispatchMode = "queued"
)

func (DispatchMode) Choices() []string {
	return []string{string(DispatchAtOnce), string(DispatchQueued)}
}

// Scheduling says whether a tool may be called at set times.
type Scheduling string

const (
	SchedulesNever   Scheduling = "never"
	SchedulesAllowed Scheduling = "allowed"
)

func (Scheduling) Choices() []string {
	return []string{string(SchedulesNever), string(SchedulesAllowed)}
}

// later reads whether calls run without their caller there (rule C2). Resources,
// prompts and completions are read by whoever asks, and what a framework runs itself
// runs where its caller is.
func (b *builder) later(t *Tool, s *Server, e Entry, place yamlfile.Place) {
	t.Queued, t.Scheduled = e.Dispatch == DispatchQueued, e.Schedules == SchedulesAllowed
	for _, k := range []struct {
		key string
		set bool
	}{{"dispatch", t.Queued}, {"schedules", t.Scheduled}} {
		switch path := "tools." + t.Name + "." + k.key; {
		case !k.set:
		case t.Method != MethodTool:
			b.fail(place, path, "is for tools; resources, prompts and completions are read by whoever asks")
		case s.Kind == KindLease:
			b.fail(place, path, "is not for tools that a framework runs itself: they run where their caller is")
		}
	}
}

package dispatch_test
import ("testing";"os";"time";"strings";"fmt";"github.com/placet-dev/placet/record")
func TestProbeRaw(t *testing.T) {
	s := newScene(t, keeping)
	var last record.CallID
	for i := range 60 {
		a := s.do(anna, "digested", fmt.Sprintf(`{"note":"MARKER-%d-%s","order":"o"}`, i, strings.Repeat("x", i*20)))
		last = a.Call.ID
		s.do(anna, "kept", fmt.Sprintf(`{"note":"%d-%s","order":"o"}`, i, strings.Repeat("y", i*20)))
	}
	s.passes(2*time.Minute, func() bool {
		return s.loaded(last).Call.Redacted != nil })
	n := func(suffix string) int { b, _ := os.ReadFile(s.path+suffix); return strings.Count(string(b), "MARKER-") }
	t.Log("open: file", n(""), "wal", n("-wal"))
	s.restart()
	t.Log("after restart: file", n(""), "wal", n("-wal"))
}

package sqlite

import (
	"path/filepath"
	"testing"

	"github.com/placet-dev/placet/store/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T, pause func()) storetest.Store {
		s, err := Open(t.Context(), filepath.Join(t.TempDir(), "state.db"), Options{testOnlyPause: pause})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		return s
	})
}

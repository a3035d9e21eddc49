package postgres

import (
	"os"
	"testing"

	"github.com/placet-dev/placet/store/postgres/pgtest"
	"github.com/placet-dev/placet/store/storetest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// runtime is a role of least privilege, on a database whose schema its owner made.
func runtimeRole(t testing.TB) (dsn string, s *pgtest.Server, database string) {
	t.Helper()
	s = pgtest.Shared(t)
	database = s.Database(t)
	role := "runs_" + database
	s.Do(t, database, "CREATE ROLE "+role+" LOGIN PASSWORD 's3cret-"+role+"'")
	if err := Migrate(t.Context(), s.DSN("owner", database), role); err != nil {
		t.Fatal(err)
	}
	return s.DSN(role, database), s, database
}

func open(t testing.TB, dsn string, pause func()) *Store {
	t.Helper()
	s, err := Open(t.Context(), dsn, Options{testOnlyPause: pause})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T, pause func()) storetest.Store {
		dsn, _, _ := runtimeRole(t)
		return open(t, dsn, pause)
	})
}

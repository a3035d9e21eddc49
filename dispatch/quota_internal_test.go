package dispatch

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/placet-dev/placet/record"
)

// Rule J3: what the quota of events refuses is told once in a window, with its count,
// and apart for each tenant.
func TestRule_J3_RefusalsAreOneEventInAWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r refusals
		var mu sync.Mutex // two tenants' windows end at once
		told := map[string][]int64{}
		refuse := func(tenant string, n int) {
			for range n {
				r.refused(record.TenantID(tenant), func(n int64) {
					mu.Lock()
					defer mu.Unlock()
					told[tenant] = append(told[tenant], n)
				})
			}
		}
		refuse("acme", 500)
		refuse("globex", 1)
		time.Sleep(quotaWindow + time.Second) // the bubble's clock
		synctest.Wait()
		refuse("acme", 2)
		time.Sleep(quotaWindow + time.Second)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if a, g := told["acme"], told["globex"]; len(a) != 2 || a[0] != 500 || a[1] != 2 || len(g) != 1 || g[0] != 1 {
			t.Errorf("told %v", told)
		}
	})
}

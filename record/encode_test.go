package record

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/placet-dev/placet/canon"
)

// TestEventsReadBack: what is encoded by hand is what encoding/json would write,
// member for member, and a member that is new to Body is not forgotten.
func TestEventsReadBack(t *testing.T) {
	text := rapid.OneOf(rapid.Just(""), rapid.String(), rapid.SampledFrom([]string{"<b>&\"\\\n\u2028", "\x00\x1f", "é\U0001F600"}))
	digest := rapid.Custom(func(t *rapid.T) (d canon.Digest) {
		if rapid.Bool().Draw(t, "set") {
			d = canon.Of(rapid.String().Draw(t, "of"))
		}
		return d
	})
	moment := rapid.Custom(func(t *rapid.T) time.Time {
		if rapid.Bool().Draw(t, "zero") {
			return time.Time{}
		}
		return time.UnixMicro(rapid.Int64Range(1, 1<<52).Draw(t, "micro")).UTC()
	})
	rapid.Check(t, func(t *rapid.T) {
		var b Body
		v := reflect.ValueOf(&b).Elem()
		for i := range v.NumField() {
			f, name := v.Field(i), v.Type().Field(i).Name
			switch f.Interface().(type) {
			case canon.Digest:
				f.Set(reflect.ValueOf(digest.Draw(t, name)))
			case time.Time:
				f.Set(reflect.ValueOf(moment.Draw(t, name)))
			case []Reason:
				for range rapid.IntRange(0, 2).Draw(t, "reasons") {
					b.Reasons = append(b.Reasons, Reason{text.Draw(t, "rule"), text.Draw(t, "place"), Verdict(text.Draw(t, "verdict")), Code(text.Draw(t, "code")),
						text.Draw(t, "public"), text.Draw(t, "private"), text.Draw(t, "instead"), text.Draw(t, "version"), rapid.Bool().Draw(t, "observe")})
				}
			case []Origin:
				for range rapid.IntRange(0, 2).Draw(t, "origins") {
					b.Origins = append(b.Origins, Origin{text.Draw(t, "argument"), text.Draw(t, "kind"), ValueOrigin(text.Draw(t, "from")), rapid.Bool().Draw(t, "trusted"),
						rapid.Bool().Draw(t, "target"), rapid.Bool().Draw(t, "hidden"), text.Draw(t, "digest"), CallID(text.Draw(t, "of")), text.Draw(t, "by")})
				}
			case []CallID:
				for range rapid.IntRange(0, 2).Draw(t, "kept") {
					b.Kept = append(b.Kept, CallID(text.Draw(t, "call")))
				}
			case []string:
				var list []string
				for range rapid.IntRange(0, 2).Draw(t, "length") {
					list = append(list, text.Draw(t, "name"))
				}
				f.Set(reflect.ValueOf(list))
			case *Who:
				if rapid.Bool().Draw(t, "set") {
					f.Set(reflect.ValueOf(&Who{Agent: AgentID(text.Draw(t, "agent")), Principal: &Principal{text.Draw(t, "issuer"), text.Draw(t, "subject")}}))
				}
			case *Alert:
				if rapid.Bool().Draw(t, "set") {
					f.Set(reflect.ValueOf(&Alert{Rule: AlertRule(text.Draw(t, "rule")), Subject: text.Draw(t, "subject"), Text: text.Draw(t, "words"),
						Count: rapid.Int().Draw(t, "count"), Events: []int64{rapid.Int64().Draw(t, "seq")}, Calls: []CallID{CallID(text.Draw(t, "call"))}}))
				}
			case *Modelled:
				if rapid.Bool().Draw(t, "set") {
					f.Set(reflect.ValueOf(&Modelled{Provider: text.Draw(t, "provider"), Request: digest.Draw(t, "request"), Response: text.Draw(t, "response"),
						Emitted: []Emitted{{ID: EmissionID(text.Draw(t, "id")), Tool: text.Draw(t, "tool"), Position: rapid.Int().Draw(t, "position")}},
						Retired: []EmissionID{EmissionID(text.Draw(t, "retired"))}}))
				}
			case *Grant:
				if rapid.Bool().Draw(t, "set") {
					f.Set(reflect.ValueOf(&Grant{Tools: []string{text.Draw(t, "tool")}, Scopes: []string{text.Draw(t, "scope")}, Targets: map[string][]string{text.Draw(t, "argument"): {}},
						Money: map[string]int64{text.Draw(t, "currency"): rapid.Int64().Draw(t, "micros")}, Calls: rapid.Int64().Draw(t, "calls"), Until: moment.Draw(t, "until")}))
				}
			case *Notice:
				if rapid.Bool().Draw(t, "set") {
					f.Set(reflect.ValueOf(&Notice{ID: text.Draw(t, "id"), Receiver: text.Draw(t, "receiver"), Reminder: rapid.Int().Draw(t, "reminder"), Alert: rapid.Int64().Draw(t, "alert")}))
				}
			default:
				switch f.Kind() {
				case reflect.String:
					f.SetString(text.Draw(t, name))
				case reflect.Bool:
					f.SetBool(rapid.Bool().Draw(t, name))
				case reflect.Int, reflect.Int64:
					f.SetInt(rapid.Int64().Draw(t, name))
				default:
					t.Fatalf("Body.%s is of a type that this test, and perhaps encode, does not know", name)
				}
			}
		}
		same(t, b.encode(), b)
		w := Who{Agent: AgentID(text.Draw(t, "agent")), Workload: text.Draw(t, "workload"), System: text.Draw(t, "system")}
		if rapid.Bool().Draw(t, "principal") {
			w.Principal = &Principal{text.Draw(t, "issuer"), text.Draw(t, "subject")}
		}
		same(t, w.AppendJSON(nil), w)
	})
}

func same(t *rapid.T, got []byte, of any) {
	t.Helper()
	want, err := json.Marshal(of)
	if err != nil {
		t.Fatal(err)
	}
	var a, b any
	if err := json.Unmarshal(got, &a); err != nil {
		t.Fatalf("%s: %v", got, err)
	}
	if err := json.Unmarshal(want, &b); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(a, b) {
		t.Fatalf("by hand  %s\nexpected %s", got, want)
	}
}

package identity

import (
	"slices"
	"strings"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
)

// maxActors bounds a chain of actors. Longer ones are refused rather than cut: the
// end of a chain says who began it.
const maxActors = 5

// actorNames are the members by which an actor is known (RFC 8693 section 4.1).
// Others, such as exp, mean nothing there.
var actorNames = []string{"sub", "client_id", "iss"}

// actorsOf reads who acts for the token's subject, the current actor first. Only
// that one may become the agent; those inside it acted earlier and are told, not
// asked (RFC 8693 section 4.1). A chain that is not well formed is refused: two
// readers could see two actors.
func actorsOf(claims []byte) ([]string, error) {
	var actors []string
	act, nested := canon.Lookup(claims, "act")
	for nested {
		if len(actors) == maxActors {
			return nil, refuse(checkActors, record.Unauthenticated, "the token's chain of actors (act) is longer than %d", maxActors)
		}
		name := ""
		if len(act) == 0 || act[0] != '{' {
			return nil, refuse(checkActors, record.Unauthenticated, "the token's act, or one inside it, is not an object")
		}
		for _, member := range actorNames {
			if _, there := canon.Lookup(act, member); !there {
				continue
			}
			text, problem := nameClaim(act, member)
			if problem != "" {
				return nil, refuse(checkActors, record.Unauthenticated, "%s of the token's act, or of one inside it, is not a text, or is empty, too long or holds control characters", member)
			}
			if name == "" && member != "iss" {
				name = text
			}
		}
		if name == "" {
			return nil, refuse(checkActors, record.Unauthenticated, "the token's act, or one inside it, names nobody: it has neither sub nor client_id")
		}
		actors = append(actors, name)
		act, nested = canon.Lookup(act, "act")
	}
	return actors, nil
}

// passedOver reports whether the agent was found in a claim that says less of who
// acts than act does: act is there, and names none that this issuer's configuration
// looks for in it. The token's client is not the one who acts then.
func (i Issuer) passedOver(found string, actors []string) bool {
	asksForActor := slices.ContainsFunc(i.Claims.Agent, func(name string) bool { return strings.HasPrefix(name, "act.") })
	return len(actors) > 0 && asksForActor && !strings.HasPrefix(found, "act.")
}

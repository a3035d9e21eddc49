package authzen

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/placet-dev/placet/canon"
	"github.com/placet-dev/placet/record"
)

// endpoints are where questions go. batch is "" where the decision point has none.
type endpoints struct{ single, batch string }

// wellKnown is inserted between host and path of the decision point's URL (section 9.2).
const wellKnown = "/.well-known/authzen-configuration"

// metadataLasts is how long endpoints are kept. They are places, not decisions.
const metadataLasts = 10 * time.Minute

// endpoints says where questions go: the paths of the specification, or what the
// metadata names. Without metadata nothing can be asked.
func (c *Client) endpoints(ctx context.Context) (endpoints, error) {
	if !c.o.Discover {
		return endpoints{single: c.path("/access/v1/evaluation"), batch: c.path("/access/v1/evaluations")}, nil
	}
	c.mu.Lock()
	found, until := c.found, c.until
	c.mu.Unlock()
	if found != nil && c.o.Clock().Before(until) {
		return *found, nil
	}
	fresh, err := c.discover(ctx)
	if err != nil {
		return endpoints{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.found, c.until = &fresh, c.o.Clock().Add(metadataLasts)
	return fresh, nil
}

// Check reads the metadata, where discovery is on, and reports what is wrong with it.
func (c *Client) Check(ctx context.Context) error {
	if !c.o.Discover {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, MostTimeout)
	defer cancel()
	if _, err := c.discover(ctx); err != nil {
		return record.Because(record.Unavailable, err, "the decision point's metadata cannot be used")
	}
	return nil
}

func (c *Client) discover(ctx context.Context) (endpoints, error) {
	at := *c.base
	at.Path = wellKnown + strings.TrimSuffix(c.base.Path, "/")
	at.RawPath = ""
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return endpoints{}, err
	}
	object, err := c.send(req)
	if err != nil {
		return endpoints{}, fmt.Errorf("read the metadata: %w", err)
	}
	// Section 9.3: metadata that names another decision point must not be used.
	if named, _ := canon.Lookup(object, "policy_decision_point"); textOf(named) != c.o.URL {
		return endpoints{}, errors.New("the metadata is of another decision point: its policy_decision_point is not the configured url")
	}
	var out endpoints
	for name, to := range map[string]*string{"access_evaluation_endpoint": &out.single, "access_evaluations_endpoint": &out.batch} {
		value, found, err := member(object, name)
		if err != nil {
			return endpoints{}, err
		}
		if !found {
			continue
		}
		if *to, err = c.endpoint(textOf(value)); err != nil {
			return endpoints{}, fmt.Errorf("the metadata's %s %w", name, err)
		}
	}
	if out.single == "" {
		return endpoints{}, errors.New("the metadata has no access_evaluation_endpoint")
	}
	return out, nil
}

// endpoint accepts a URL of the decision point's own host: the operator named that
// host as the one that decides and gets the credential, and no document adds to it.
func (c *Client) endpoint(text string) (string, error) {
	u, err := parseURL(text)
	switch {
	case err != nil:
		return "", err
	case !sameOrigin(u, c.base):
		return "", errors.New("is on another host than the decision point's url")
	}
	return u.String(), nil
}

func sameOrigin(a, b *url.URL) bool { return a.Scheme == b.Scheme && strings.EqualFold(a.Host, b.Host) }

func textOf(value []byte) string {
	s, _ := canon.Text(value)
	return s
}

// Package lint checks the Helm chart with Helm's own code. It is a module of its
// own, so that nothing of Helm's is in Placet's build.
package lint

import (
	"bytes"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"sigs.k8s.io/yaml"
)

const chart = "../placet"

func TestChartLints(t *testing.T) {
	for _, m := range lint.All(chart, nil, "default", true).Messages {
		// An icon is the only thing that the chart does without.
		if m.Severity > support.InfoSev {
			t.Errorf("%v", m)
		}
	}
}

// render is what the chart makes of values, by the kind of object.
func render(t *testing.T, values map[string]any) map[string]map[string]any {
	t.Helper()
	c, err := loader.Load(chart)
	if err != nil {
		t.Fatal(err)
	}
	all, err := chartutil.ToRenderValues(c, values, chartutil.ReleaseOptions{Name: "p", Namespace: "agents"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	files, err := engine.Render(c, all)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]map[string]any{}
	for name, text := range files {
		if strings.HasSuffix(name, ".txt") || len(bytes.TrimSpace([]byte(text))) == 0 {
			continue
		}
		var o map[string]any
		if err := yaml.UnmarshalStrict([]byte(text), &o); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, text)
		}
		out[o["kind"].(string)] = o
	}
	return out
}

func at(o any, path ...any) any {
	for _, p := range path {
		switch k := p.(type) {
		case string:
			m, _ := o.(map[string]any)
			o = m[k]
		case int:
			l, _ := o.([]any)
			if k >= len(l) {
				return nil
			}
			o = l[k]
		}
	}
	return o
}

// What the pods must not be able to do, and what the operator wrote, are in the
// objects.
func TestChartRenders(t *testing.T) {
	got := render(t, map[string]any{
		"config":        "version: 1\nlisten: 0.0.0.0:8443\n",
		"files":         map[string]any{"tools.yaml": "version: 1\ntools: {}\n"},
		"networkPolicy": map[string]any{"from": []any{map[string]any{"podSelector": map[string]any{}}}},
	})
	for _, kind := range []string{"ConfigMap", "Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy"} {
		if got[kind] == nil {
			t.Errorf("no %s", kind)
		}
	}
	if text := at(got["ConfigMap"], "data", "placet.yaml"); text != "version: 1\nlisten: 0.0.0.0:8443" {
		t.Errorf("placet.yaml is %q", text)
	}
	if text := at(got["ConfigMap"], "data", "tools.yaml"); text != "version: 1\ntools: {}" {
		t.Errorf("tools.yaml is %q", text)
	}
	pod := at(got["Deployment"], "spec", "template", "spec")
	container := at(pod, "containers", 0)
	for _, c := range []struct {
		got, want any
	}{
		{at(pod, "securityContext", "runAsNonRoot"), true},
		{at(pod, "automountServiceAccountToken"), false},
		{at(container, "securityContext", "readOnlyRootFilesystem"), true},
		{at(container, "securityContext", "allowPrivilegeEscalation"), false},
		{at(container, "securityContext", "capabilities", "drop", 0), "ALL"},
		{at(container, "readinessProbe", "httpGet", "path"), "/readyz"},
		{at(got["Deployment"], "spec", "selector", "matchLabels", "app.kubernetes.io/instance"), "p"},
		{at(got["Service"], "spec", "sessionAffinity"), nil},
	} {
		if c.got != c.want {
			t.Errorf("got %v, want %v", c.got, c.want)
		}
	}
}

// Key files are mounted where there are some; without, the keys follow from the secret.
func TestChartMountsKeys(t *testing.T) {
	for name, mounts := range map[string]int{"": 0, "moved-keys": 1} {
		got := render(t, map[string]any{"secrets": map[string]any{"keys": name}})
		pod := at(got["Deployment"], "spec", "template", "spec")
		found := 0
		volumes, _ := at(pod, "volumes").([]any)
		for _, v := range volumes {
			if at(v, "name") == "keys" && at(v, "secret", "secretName") == name {
				found++
			}
		}
		mounted := 0
		all, _ := at(pod, "containers", 0, "volumeMounts").([]any)
		for _, m := range all {
			if at(m, "name") == "keys" && at(m, "readOnly") == true {
				mounted++
			}
		}
		if found != mounts || mounted != mounts || len(volumes) == 0 {
			t.Errorf("keys %q: %d volumes, %d mounts", name, found, mounted)
		}
		if text, _ := at(got["ConfigMap"], "data", "placet.yaml").(string); !strings.Contains(text, "secret: env:PLACET_SECRET") {
			t.Errorf("the configuration names no secret: %q", text)
		}
	}
}

func TestChartRefusesUnknownValues(t *testing.T) {
	c, err := loader.Load(chart)
	if err != nil {
		t.Fatal(err)
	}
	_, err = chartutil.ToRenderValues(c, map[string]any{"replica": 2}, chartutil.ReleaseOptions{Name: "p"}, nil)
	if err == nil || !strings.Contains(err.Error(), "replica") {
		t.Fatalf("got %v", err)
	}
}

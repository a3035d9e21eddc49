package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/placet-dev/placet/yamlfile"
)

// NamedSecret is a reference to a secret, and where the configuration states it.
type NamedSecret struct {
	Key string
	Ref yamlfile.SecretRef
}

// Secrets are all secrets that the configuration refers to, that of the store's
// connection string among them.
func (c *Config) Secrets() []NamedSecret {
	var out []NamedSecret
	if ref, err := yamlfile.NewSecretRef(c.Store); err == nil {
		out = append(out, NamedSecret{"store", ref.In(c.folder)})
	}
	secretsIn(reflect.ValueOf(c).Elem(), "", &out)
	return slices.DeleteFunc(out, func(s NamedSecret) bool { return s.Ref.IsZero() })
}

// secretsIn walks what was read from a file. Whatever is added to the configuration is found.
func secretsIn(v reflect.Value, at string, out *[]NamedSecret) {
	join := func(key string) string { return strings.TrimPrefix(at+"."+key, ".") }
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			secretsIn(v.Elem(), at, out)
		}
	case reflect.Slice:
		for i := range v.Len() {
			e := v.Index(i)
			if strings.HasPrefix(e.Type().Name(), "Entry[") { // of a mapping
				secretsIn(e.FieldByName("Value"), join(e.FieldByName("Key").String()), out)
				continue
			}
			secretsIn(e, fmt.Sprintf("%s[%d]", at, i), out)
		}
	case reflect.Struct:
		if v.CanInterface() {
			if ref, ok := v.Interface().(yamlfile.SecretRef); ok {
				*out = append(*out, NamedSecret{at, ref})
				return
			}
		}
		for i := range v.NumField() {
			f := v.Type().Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
			switch {
			case !f.IsExported():
			case f.Anonymous && name == "":
				secretsIn(v.Field(i), at, out)
			case name != "" && name != "-":
				secretsIn(v.Field(i), join(name), out)
			}
		}
	}
}

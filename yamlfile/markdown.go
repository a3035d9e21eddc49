package yamlfile

import (
	"fmt"
	"reflect"
	"strings"
	"time"
)

// Markdown is the table of a file's keys for the documentation, from the same
// tags as everything else: one row a key, nested keys with their path, keys that
// are not supported yet last and by name only.
func Markdown(title string, root any) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\nGenerated from the code. Nested keys are written with dots; `*` stands for a name, `[]` for each element.\n\n", title)
	b.WriteString("| key | what | default | meaning |\n|---|---|---|---|\n")
	var later []string
	rows(&b, "", reflect.TypeOf(root), &later)
	fmt.Fprintf(&b, "\nKnown and refused as \"not supported yet\": %s.\n", strings.Join(later, ", "))
	return b.String()
}

func rows(b *strings.Builder, prefix string, t reflect.Type, later *[]string) {
	for _, f := range fieldsOf(t) {
		path := strings.TrimPrefix(prefix+"."+f.key, ".")
		typ := f.typ
		if typ.Kind() == reflect.Pointer {
			typ = typ.Elem()
		}
		if typ == reflect.TypeFor[Later]() {
			*later = append(*later, "`"+path+"`")
			continue
		}
		fallback := f.fallback
		switch {
		case f.required:
			fallback = "required"
		case fallback != "":
			fallback = "`" + fallback + "`"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", path, noun(typ), fallback, strings.ReplaceAll(f.doc, "|", "\\|"))
		switch {
		case isEntries(typ):
			value, _ := typ.Elem().FieldByName("Value")
			if value.Type.Kind() == reflect.Struct {
				rows(b, path+".*", value.Type, later)
			}
		case typ.Kind() == reflect.Slice && typ.Elem().Kind() == reflect.Struct && !isText(typ.Elem()):
			rows(b, path+"[]", typ.Elem(), later)
		case typ.Kind() == reflect.Struct && !isText(typ):
			rows(b, path, typ, later)
		}
	}
}

// noun says in a word or two what a key's value is.
func noun(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return "duration"
	case t == reflect.TypeFor[SecretRef]():
		return "reference"
	case t == reflect.TypeFor[Strings]():
		return "text or list"
	case reflect.PointerTo(t).Implements(reflect.TypeFor[Number]()):
		return "decimal"
	case len(choices(t)) > 0:
		return "one of " + strings.Join(choices(t), ", ")
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.Int, t.Kind() == reflect.Int64:
		return "number"
	case isEntries(t):
		return "names"
	case t.Kind() == reflect.Slice && len(choices(t.Elem())) > 0:
		return "list of " + strings.Join(choices(t.Elem()), ", ")
	case t.Kind() == reflect.Slice:
		return "list"
	case t.Kind() == reflect.Struct && !isText(t):
		return "keys"
	}
	return "text"
}

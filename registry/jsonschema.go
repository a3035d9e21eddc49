package registry

import "github.com/placet-dev/placet/yamlfile"

// JSONSchema is the JSON Schema of tools.yaml, for editors. It is checked in as
// tools.schema.json.
func JSONSchema() ([]byte, error) {
	return yamlfile.Schema("https://placet.dev/schema/tools.schema.json", "tools.yaml: the tools that exist and what each may be used for", File{})
}

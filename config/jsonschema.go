package config

import "github.com/placet-dev/placet/yamlfile"

// JSONSchema is the JSON Schema of placet.yaml, for editors. It is checked in as
// placet.schema.json.
func JSONSchema() ([]byte, error) {
	return yamlfile.Schema("https://placet.dev/schema/placet.schema.json", "placet.yaml: how a Placet server runs", Config{})
}

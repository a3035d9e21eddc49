package credential

import (
	"fmt"
	"log/slog"
)

// Secret is a text that never shows: whatever prints it writes "redacted".
type Secret string

// Format writes "redacted", whatever the verb.
func (Secret) Format(s fmt.State, _ rune)   { _, _ = s.Write([]byte(redacted)) }
func (Secret) LogValue() slog.Value         { return slog.StringValue(redacted) }
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// Reveal is the text itself.
func (s Secret) Reveal() string { return string(s) }

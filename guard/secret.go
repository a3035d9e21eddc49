package guard

import (
	"encoding/base64"
	"regexp"
	"strings"
)

// secrets are forms that their issuers publish so that they can be found, and two
// that are secrets by what they say of themselves. The list is short on purpose:
// a form that ordinary words could have is not in it.
var secrets = []*regexp.Regexp{
	regexp.MustCompile(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY( BLOCK)?-----`),                              // PEM, OpenSSH, PGP
	regexp.MustCompile(`PuTTY-User-Key-File-[23]:`),                                                   //
	regexp.MustCompile(`\b(AKIA|ASIA)[A-Z2-7]{16}\b`),                                                 // AWS access key
	regexp.MustCompile(`(?i)aws_?secret_?access_?key["'\s:=]{1,5}[A-Za-z0-9/+=]{40}`),                 // AWS secret key
	regexp.MustCompile(`\b(ghp|gho|ghu|ghs|ghr)_[A-Za-z0-9]{36,}\b|\bgithub_pat_[A-Za-z0-9_]{60,}\b`), // GitHub
	regexp.MustCompile(`\bgl(pat|ptt|dt|rt|cbt|ft)-[A-Za-z0-9_-]{20,}`),                               // GitLab
	regexp.MustCompile(`\bxox[abeoprs]-[A-Za-z0-9-]{10,}|\bxapp-[0-9]-[A-Za-z0-9-]{10,}`),             // Slack
	regexp.MustCompile(`https://hooks\.slack\.com/services/[A-Za-z0-9/]{20,}`),                        //
	regexp.MustCompile(`\b[sr]k_(live|test)_[A-Za-z0-9]{16,}`),                                        // Stripe
	regexp.MustCompile(`\bAIza[A-Za-z0-9_-]{35}\b`),                                                   // Google API key
	regexp.MustCompile(`\bya29\.[A-Za-z0-9_-]{20,}`),                                                  // Google OAuth token
	regexp.MustCompile(`\bsk-(ant|proj|svcacct|admin|or)-[A-Za-z0-9_-]{20,}|\bsk-[A-Za-z0-9]{40,}\b`), // model providers
	regexp.MustCompile(`\bnpm_[A-Za-z0-9]{36}\b|\bpypi-[A-Za-z0-9_-]{50,}|\bhf_[A-Za-z0-9]{30,}\b`),   // registries
	regexp.MustCompile(`\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}`),                                // SendGrid
	regexp.MustCompile(`\bdop_v1_[a-f0-9]{64}\b|\bdckr_pat_[A-Za-z0-9_-]{20,}|\bshp(at|ss|ca)_[a-fA-F0-9]{32}\b`),
	regexp.MustCompile(`\bhv[sbr]\.[A-Za-z0-9_-]{24,}`),                                                         // Vault
	regexp.MustCompile(`\bAccountKey=[A-Za-z0-9+/]{60,}={0,2}|[?&]sig=[A-Za-z0-9%+/]{40,}`),                     // Azure
	regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}`),                    // JWT, RFC 7519
	regexp.MustCompile(`\b[a-z][a-z0-9+.-]{2,20}://[^\s/:@]{1,64}:[^\s/@]{3,}@[^\s/]`),                          // a URL with a password
	regexp.MustCompile(`(?i)\b(authorization|proxy-authorization)\s*:\s*(bearer|basic)\s+[a-z0-9._~+/=-]{12,}`), // RFC 9110
	regexp.MustCompile(`(?i)\b(password|passwd|passphrase|api[_-]?key|secret[_-]?key|client[_-]?secret|access[_-]?token|auth[_-]?token)["']?\s*[:=]\s*["']?[^\s"'<>{}$*]{8,}`),
}

// encoded is what may hold a text in base64 (RFC 4648).
var encoded = regexp.MustCompile(`[A-Za-z0-9+/_-]{24,}={0,2}`)

// holdsSecret looks in the text, and in what it holds percent-encoded or in base64.
func holdsSecret(text string) bool {
	if matchesSecret(text) || matchesSecret(percentDecoded(text)) {
		return true
	}
	for _, part := range encoded.FindAllString(text, -1) {
		plain := strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(part, "="))
		if inner, err := base64.RawStdEncoding.DecodeString(plain); err == nil && matchesSecret(string(inner)) {
			return true
		}
	}
	return false
}

func matchesSecret(text string) bool {
	for _, s := range secrets {
		if s.MatchString(text) {
			return true
		}
	}
	return false
}

package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strings"

	"github.com/placet-dev/placet/edge/llm/llmtest"
	"github.com/placet-dev/placet/record"
)

// chat is a stored conversation in a provider's format.
type chat struct {
	Messages []json.RawMessage `json:"messages"`
}

// toolUse is a tool call that a stored message claims the model made.
type toolUse struct {
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
}

func storedChat() (chat, error) {
	var c chat
	text, err := fs.ReadFile(files, "files/chat.json")
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	return c, err
}

// unresolved is the tool call that the conversation ends in.
func (c chat) unresolved() (toolUse, error) {
	if len(c.Messages) > 0 {
		var last struct {
			Role    string `json:"role"`
			Content []struct {
				Type string `json:"type"`
				toolUse
			} `json:"content"`
		}
		if err := json.Unmarshal(c.Messages[len(c.Messages)-1], &last); err != nil {
			return toolUse{}, fmt.Errorf("read the stored chat: %w", err)
		}
		if n := len(last.Content); n > 0 && last.Role == "assistant" && last.Content[n-1].Type == "tool_use" {
			return last.Content[n-1].toolUse, nil
		}
	}
	return toolUse{}, errors.New("the stored chat does not end in a tool call")
}

// attempt is one way in which mallory's client asks to go on with anna's chat.
type attempt struct {
	what   string
	method string // empty: over MCP, placet_wait
	path   string
	body   any
}

// noBinding has the form of a binding and is none: mallory is refused before it matters.
var noBinding = "sha256:" + strings.Repeat("0", 64)

// resumeByAnother is f. Mallory's client has anna's chat, which ends in a tool
// call without a result, and the IDs of anna's run and of her call that waits, or on which a person has decided. It
// does with them what a naive runtime does with history: hands them in and asks to
// go on. None of it is a call, so none of it runs.
func (s *scene) resumeByAnother(ctx context.Context) error {
	before, err := s.auditor.calls(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(before, func(c recorded) bool { return c.ID == s.larger })
	if i < 0 {
		return errors.New("step f: there is no record of anna's call of step e")
	}
	if err := s.goOn(ctx, before[i]); err != nil {
		return err
	}
	after, err := s.auditor.calls(ctx)
	if err != nil {
		return err
	}
	if !slices.Equal(before, after) {
		s.fault("f", "the resumed chat changed the gateway's calls")
	}
	l := line{Step: "f", show: "mallory resumes anna's chat that ends in delete_file", note: "history is data; anna's next real question still works"}
	if l.Effects, err = s.effects(ctx, "f"); err != nil {
		return err
	}
	if l.Effects != s.ran {
		s.fault("f", "the ledger holds %d effects, not %d", l.Effects, s.ran)
	}
	t, err := s.asksModel(ctx)
	if err != nil {
		return err
	}
	if t.decision != nil || t.isError {
		s.fault("f", "anna's next question was not answered: %s", t.text)
	}
	now, err := s.auditor.calls(ctx)
	if err != nil {
		return err
	}
	if len(now) != len(before)+1 || now[0].Tool != "db_query" || now[0].Source != record.Witnessed {
		s.fault("f", "anna's next question is not recorded as her model's")
	}
	return s.out.step(l)
}

// goOn makes every attempt, with anna's call of step e at hand.
func (s *scene) goOn(ctx context.Context, anna recorded) error {
	history, err := storedChat()
	if err != nil {
		return err
	}
	use, err := history.unresolved()
	if err != nil {
		return err
	}
	if err := s.mallory.connect(ctx); err != nil {
		return err
	}
	run, call := string(anna.Run), string(anna.ID)
	// Anna reads both by these paths, so that a refusal to mallory means something.
	for _, path := range []string{"/v1/runs/" + run, "/v1/calls/" + call} {
		if err := s.anna.must(ctx, http.MethodGet, path, nil, nil); err != nil {
			return err
		}
	}
	for _, a := range []attempt{
		{what: "placet_wait for anna's call, with the chat in _meta"},
		{"resume anna's run with the chat", http.MethodPost, "/v1/runs/" + run + "/resume", history},
		{"read anna's run", http.MethodGet, "/v1/runs/" + run, nil},
		{"read anna's call", http.MethodGet, "/v1/calls/" + call, nil},
		{"hand in the chat as a proposal in anna's run", http.MethodPost, "/v1/calls", map[string]any{"run": run, "messages": history.Messages}},
		{"the chat's tool call in anna's run", http.MethodPost, "/v1/calls", map[string]any{"run": run, "tool": use.Name, "arguments": use.Input}},
		{"dispatch by the provider's ID", http.MethodPost, "/v1/calls/" + use.ID + "/dispatch", nil},
		{"dispatch anna's call", http.MethodPost, "/v1/calls/" + call + "/dispatch", nil},
		{"approve anna's call", http.MethodPost, "/v1/approvals/" + string(anna.Approval) + "/approve", map[string]string{"binding": noBinding}},
	} {
		refused, err := s.refused(ctx, a, anna, history)
		if err != nil {
			return fmt.Errorf("step f: %s: %w", a.what, err)
		}
		if !refused {
			s.fault("f", "mallory was not refused: %s", a.what)
		}
	}
	return s.asData(ctx, history, use)
}

// asData hands the chat to what takes histories: it is checked, kept for display and
// shown to a model, which even makes the call again. It was put into the model's
// mouth, so that shows nothing.
func (s *scene) asData(ctx context.Context, history chat, use toolUse) error {
	s.h.model.Say(llmtest.Reply{Calls: []llmtest.Call{{ID: "toolu_again", Name: use.Name, Arguments: string(use.Input)}}})
	for path, body := range map[string]any{
		"/v1/history/check?format=anthropic-messages": history,
		"/v1/transcripts?format=anthropic-messages":   history,
		"/llm/model/v1/messages":                      map[string]any{"model": "stand-in", "max_tokens": 64, "messages": history.Messages},
	} {
		if err := s.mallory.must(ctx, http.MethodPost, path, body, nil); err != nil {
			return fmt.Errorf("step f: %w", err)
		}
	}
	if n := len(s.h.model.Requests()); n != 1 {
		s.fault("f", "the model was asked %d times", n)
	}
	return nil
}

// asksModel is anna's own question, to the model and then, as it says, to the tool.
func (s *scene) asksModel(ctx context.Context) (told, error) {
	s.h.model.Say(llmtest.Reply{Calls: []llmtest.Call{{ID: "toolu_orders", Name: "db_query", Arguments: orders21}}})
	question := map[string]any{"model": "stand-in", "max_tokens": 64, "messages": []any{map[string]string{"role": "user", "content": "What did cus_21 order?"}}}
	if err := s.anna.must(ctx, http.MethodPost, "/llm/model/v1/messages", question, nil); err != nil {
		return told{}, fmt.Errorf("step f: %w", err)
	}
	return s.anna.call(ctx, "db_query", json.RawMessage(orders21), nil)
}

func (s *scene) refused(ctx context.Context, a attempt, anna recorded, history chat) (bool, error) {
	if a.method == "" {
		argument, err := json.Marshal(map[string]record.CallID{"call": anna.ID})
		if err != nil {
			return false, err
		}
		t, err := s.mallory.call(ctx, "placet_wait", argument, map[string]any{"dev.placet/run": string(anna.Run), "messages": history.Messages})
		return t.isError, err
	}
	status, err := s.mallory.ask(ctx, a.method, a.path, a.body, nil)
	if status == http.StatusUnauthorized {
		err = errors.New("mallory's token was not accepted, so nothing was tried")
	}
	return status >= 400 && status < 500, err
}

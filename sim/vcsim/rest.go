package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"unicode"
)

// restSession is the one vAPI session that stands in for every client's: the library keeps its own kind of session
// there, but since 8.0 U3 one token opens VIM and vAPI alike.
type restSession struct {
	mu sync.Mutex
	id string
}

func (s *Sim) routeREST(mux *http.ServeMux) {
	mux.HandleFunc("/rest/", s.serveREST)
	mux.HandleFunc("/api/", s.serveREST)
	s.routeAPI(mux)
	s.routeModules(mux)
	s.routeCapture(mux)
	s.routeUploads(mux)
}

// serveREST serves what the library's vAPI handlers have, in their own form.
func (s *Sim) serveREST(w http.ResponseWriter, r *http.Request) {
	if token := tokenOf(r); token != "" && token == s.shared.current() {
		out := newAnswer()
		s.forward(out, r)
		out.send(w)
		return
	}
	s.guarded(w, r, []string{restName(r)}, true, func(out *answer) { s.forward(out, r) })
}

// forward has the library serve the request, under the shared session.
func (s *Sim) forward(out *answer, r *http.Request) {
	r = r.Clone(r.Context())
	r.Header.Set(tokenHeader, s.sharedSession())
	r.Header.Del("Cookie")
	var body []byte
	deploys := strings.HasPrefix(r.URL.Path, deployPath) && r.URL.Query().Get("~action") == "deploy"
	if deploys {
		body, _ = io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	s.vapi.ServeHTTP(out, r)
	if deploys {
		s.complete(body, r.URL.Path, out)
	}
	restore(out, r.URL.Path)
	s.showContent(out, r)
	action := r.URL.Query().Get("~action")
	lists := r.Method == http.MethodGet || action == "find" || strings.HasPrefix(action, "list-")
	if lists && strings.TrimSpace(out.body.String()) == `{"value":null}` {
		out.replace(out.status, "application/json", `{"value":[]}`)
	}
}

// restored are the members of answers that the library leaves out where they are empty.
var restored = map[string]map[string]string{
	"/rest/com/vmware/cis/tagging/tag/id:":          {"description": `""`, "used_by": "[]"},
	"/rest/com/vmware/cis/tagging/category/id:":     {"description": `""`, "used_by": "[]", "associable_types": "[]"},
	"/rest/com/vmware/vcenter/ovf/library-item/id:": {"succeeded": "false"},
	"error": {"errors": "[]", "warnings": "[]", "information": "[]"}, // of an OVF deployment
}

// restore gives an answer about one object the members that vCenter's has: all of its model, and none of the library's own,
// which are called as in Go.
func restore(out *answer, path string) {
	var body struct {
		Value map[string]json.RawMessage `json:"value"`
	}
	if json.Unmarshal(out.body.Bytes(), &body) != nil || len(body.Value) == 0 {
		return
	}
	for name := range body.Value {
		if unicode.IsUpper(rune(name[0])) {
			delete(body.Value, name)
		}
	}
	for prefix, members := range restored {
		if strings.HasPrefix(path, prefix) {
			addMissing(body.Value, members)
		}
	}
	var failure map[string]json.RawMessage
	if json.Unmarshal(body.Value["error"], &failure) == nil && len(failure) != 0 {
		addMissing(failure, restored["error"])
		body.Value["error"], _ = json.Marshal(failure)
	}
	out.body.Reset()
	_ = json.NewEncoder(out).Encode(body)
}

// showContent gives an item the size and the version of what it was filled with; the library has neither.
func (s *Sim) showContent(out *answer, r *http.Request) {
	of, ok := s.contentOf(r.URL.Path)
	var body struct {
		Value map[string]any `json:"value"`
	}
	if !ok || r.Method != http.MethodGet || json.Unmarshal(out.body.Bytes(), &body) != nil || body.Value == nil {
		return
	}
	body.Value["size"], body.Value["content_version"] = of.size, strconv.Itoa(of.version)
	out.body.Reset()
	_ = json.NewEncoder(out).Encode(body)
}

func addMissing(value map[string]json.RawMessage, members map[string]string) {
	for name, member := range members {
		if _, set := value[name]; !set {
			value[name] = json.RawMessage(member)
		}
	}
}

func (t *restSession) current() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.id
}

// sharedSession is the library's vAPI session, made anew when it has expired.
func (s *Sim) sharedSession() string {
	s.shared.mu.Lock()
	defer s.shared.mu.Unlock()
	const path = "/rest/com/vmware/cis/session"
	request := func(method, path string) *answer {
		r, _ := http.NewRequest(method, path, http.NoBody)
		r.Header.Set(tokenHeader, s.shared.id)
		r.Header.Set("vmware-use-header-authn", "true")
		r.SetBasicAuth(s.inner.UserName, s.inner.Password)
		out := newAnswer()
		s.vapi.ServeHTTP(out, r)
		return out
	}
	if s.shared.id != "" && request(http.MethodPost, path+"?~action=get").status == http.StatusOK {
		return s.shared.id
	}
	var made struct{ Value string }
	_ = json.Unmarshal(request(http.MethodPost, path).body.Bytes(), &made)
	s.shared.id = made.Value
	return s.shared.id
}

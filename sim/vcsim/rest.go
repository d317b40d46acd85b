package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"github.com/vmware/govmomi/vim25/types"
)

// tokenHeader carries the session on every JSON surface of vCenter.
const tokenHeader = "vmware-api-session-id"

// restSession is the one vAPI session that stands in for every client's: the library keeps its own kind of session
// there, but since 8.0 U3 one token opens VIM and vAPI alike.
type restSession struct {
	mu sync.Mutex
	id string
}

func (s *Sim) routeREST(mux *http.ServeMux) {
	for _, path := range []string{"/api/session", "/rest/com/vmware/cis/session"} {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			s.guarded(w, r, []string{restName(r)}, false, func(out *answer) { s.serveSession(out, r) })
		})
	}
	mux.HandleFunc("/rest/", s.serveREST)
	mux.HandleFunc("/api/", s.serveREST)
	s.routeAPI(mux)
	s.routeModules(mux)
	s.routeCapture(mux)
	s.routeUploads(mux)
}

// guarded counts a REST call and lets it meet its fault before it is served. It is known by the first name, and
// a rule may mean it by any.
func (s *Sim) guarded(w http.ResponseWriter, r *http.Request, names []string, session bool, serve func(*answer)) {
	s.counters.add(wireREST, names[0])
	if changesREST(names[0]) {
		s.journal.add(entry{wireREST, names[0], r.URL.Path})
	}
	out := newAnswer()
	verdict, goOn := s.strike(out, r, names)
	switch {
	case !goOn:
	case session && !s.alive(r, tokenOf(r)):
		unauthenticated(out, strings.HasPrefix(r.URL.Path, "/rest"))
	case s.refusesREST(out, r):
	default:
		serve(out)
	}
	if verdict != nil {
		verdict(out)
	}
	out.send(w)
}

// serveSession logs in and out of the one session by which all of vCenter is reached.
func (s *Sim) serveSession(out *answer, r *http.Request) {
	old := strings.HasPrefix(r.URL.Path, "/rest")
	switch {
	case r.Method == http.MethodPost && r.URL.Query().Get("~action") == "":
		s.openSession(out, r, old)
	case !s.alive(r, tokenOf(r)):
		unauthenticated(out, old)
	case r.Method == http.MethodDelete:
		k := &call{wire: wireInner, token: tokenOf(r), request: r}
		s.perform(k, sessionManager, "Logout", &types.Logout{This: sessionManager})
		out.status = http.StatusNoContent
	default:
		writeREST(out, http.StatusOK, old, map[string]any{"user": s.options.Credentials.Username})
	}
}

func (s *Sim) openSession(out *answer, r *http.Request, old bool) {
	token := ""
	if user, password, ok := r.BasicAuth(); ok {
		token = s.login(r, user, password)
	}
	if token == "" {
		unauthenticated(out, old)
		return
	}
	if old && !strings.EqualFold(r.Header.Get("vmware-use-header-authn"), "true") {
		http.SetCookie(out, &http.Cookie{Name: tokenHeader, Value: token, Path: "/rest"})
	}
	status := http.StatusOK
	if !old {
		status = http.StatusCreated
		out.Header().Set(tokenHeader, token)
	}
	writeREST(out, status, old, token)
}

// writeREST writes a value as the old form or the new one has it.
func writeREST(w http.ResponseWriter, status int, old bool, value any) {
	if old {
		value = map[string]any{"value": value}
	}
	writeJSON(w, status, value)
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

var sessionManager = types.ManagedObjectReference{Type: "SessionManager", Value: "SessionManager"}

// login opens a session and gives its token, or "" for wrong credentials.
func (s *Sim) login(r *http.Request, user, password string) string {
	k := &call{wire: wireInner, request: r}
	return sessionOf(s.perform(k, sessionManager, "Login",
		&types.Login{This: sessionManager, UserName: user, Password: password}))
}

// alive tells whether the token opens a session, and counts as its use.
func (s *Sim) alive(r *http.Request, token string) bool {
	if token == "" {
		return false
	}
	k := &call{wire: wireInner, token: token, request: r}
	this := types.ManagedObjectReference{Type: "ServiceInstance", Value: "ServiceInstance"}
	s.perform(k, this, "CurrentTime", &types.CurrentTime{This: this})
	return k.result != nil && k.result.Fault() == nil
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

func tokenOf(r *http.Request) string {
	if token := r.Header.Get(tokenHeader); token != "" {
		return token
	}
	if cookie, err := r.Cookie(tokenHeader); err == nil {
		return cookie.Value
	}
	return ""
}

func unauthenticated(w http.ResponseWriter, old bool) {
	if old {
		writeJSON(w, http.StatusUnauthorized, map[string]any{
			"type":  "com.vmware.vapi.std.errors.unauthenticated",
			"value": map[string]any{"messages": []any{}},
		})
		return
	}
	writeJSON(w, http.StatusUnauthorized, map[string]any{"error_type": "UNAUTHENTICATED", "messages": []any{}})
}

var ids = regexp.MustCompile(`[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}`)

// restName is how a REST call is counted and matched: without /rest, ids or query, but with its action.
func restName(r *http.Request) string {
	name := r.Method + " " + ids.ReplaceAllString(strings.TrimPrefix(r.URL.Path, "/rest"), "{id}")
	for _, key := range []string{"~action", "action"} {
		if action := r.URL.Query().Get(key); action != "" {
			name += "?" + key + "=" + action
		}
	}
	return name
}

func writeJSON(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value)
}

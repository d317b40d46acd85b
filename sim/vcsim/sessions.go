package main

import (
	"net/http"
	"regexp"
	"strings"
	"sync"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

func apiError(w http.ResponseWriter, status int, kind, text string) {
	messages := []any{}
	if text = strings.TrimSpace(text); text != "" {
		messages = append(messages, map[string]any{"id": "vcsim." + strings.ToLower(kind), "default_message": text, "args": []any{}})
	}
	writeJSON(w, status, map[string]any{"error_type": kind, "messages": messages})
}

// restError is an error in the form of /rest.
func restError(out *answer, status int, kind, text string) {
	writeJSON(out, status, map[string]any{
		"type": "com.vmware.vapi.std.errors." + kind,
		"value": map[string]any{"messages": []any{
			map[string]any{"id": "vcsim." + kind, "default_message": text, "args": []any{}},
		}},
	})
}

// tokenHeader carries the session on every JSON surface of vCenter.
const tokenHeader = "vmware-api-session-id"

func (s *Sim) routeSessions(mux *http.ServeMux) {
	for _, path := range []string{"/api/session", "/rest/com/vmware/cis/session"} {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			s.guarded(w, r, []string{restName(r)}, false, func(out *answer) { s.serveSession(out, r) })
		})
	}
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

// issued are the tokens of all sessions that were ever opened.
type issued struct {
	mu     sync.Mutex
	tokens []string
}

func (i *issued) add(token string) {
	if token != "" {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.tokens = append(i.tokens, token)
	}
}

func (i *issued) all() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return append([]string{}, i.tokens...)
}

// sessionOf is the token of a login's answer; the library sends it as a cookie.
func sessionOf(out *answer) string {
	for _, cookie := range (&http.Response{Header: out.Header()}).Cookies() {
		if cookie.Name == soap.SessionCookieName {
			return cookie.Value
		}
	}
	return ""
}

// endSessions ends every session of a client, and tells how many there were.
func (s *Sim) endSessions() int {
	ctx := s.fresh()
	manager := ctx.Session.Get(sessionManager).(*simulator.SessionManager)
	var keys []string
	for _, session := range manager.SessionList {
		if session.UserName != s.inner.UserName {
			keys = append(keys, session.Key)
		}
	}
	for _, key := range keys {
		// One by one: a session that went by itself meanwhile must not save the others.
		manager.TerminateSession(ctx, &types.TerminateSession{SessionId: []string{key}})
	}
	s.reap()
	return len(keys)
}

package wire

import (
	"net/http"
	"regexp"
	"strings"
	"sync"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/core"
	"layercake.invalid/sim/vcsim/traffic"
)

// APIError is an error in the form of /api.
func APIError(w http.ResponseWriter, status int, kind, text string) {
	messages := []any{}
	if text = strings.TrimSpace(text); text != "" {
		messages = append(messages, map[string]any{"id": "vcsim." + strings.ToLower(kind), "default_message": text, "args": []any{}})
	}
	traffic.WriteJSON(w, status, map[string]any{"error_type": kind, "messages": messages})
}

// RestError is an error in the form of /rest.
func RestError(out *traffic.Answer, status int, kind, text string) {
	traffic.WriteJSON(out, status, map[string]any{
		"type": "com.vmware.vapi.std.errors." + kind,
		"value": map[string]any{"messages": []any{
			map[string]any{"id": "vcsim." + kind, "default_message": text, "args": []any{}},
		}},
	})
}

// TokenHeader carries the session on every JSON surface of vCenter.
const TokenHeader = "vmware-api-session-id"

// RouteSessions registers the sessions of the Automation API.
func (s *Server) RouteSessions(mux *http.ServeMux) {
	for _, path := range []string{"/api/session", "/rest/com/vmware/cis/session"} {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			s.Guarded(w, r, []string{RestName(r)}, false, func(out *traffic.Answer) { s.serveSession(out, r) })
		})
	}
}

// Guarded counts a REST call and lets it meet its fault before it is served. It is known by the first name, and
// a rule may mean it by any.
func (s *Server) Guarded(w http.ResponseWriter, r *http.Request, names []string, session bool, serve func(*traffic.Answer)) {
	s.Counters.Add(traffic.REST, names[0])
	if traffic.ChangesREST(names[0]) {
		s.Journal.Add(traffic.Entry{Wire: traffic.REST, Method: names[0], Object: r.URL.Path})
	}
	out := traffic.NewAnswer()
	verdict, goOn := s.Strike(out, r, names)
	switch {
	case !goOn:
	case session && !s.alive(r, TokenOf(r)):
		unauthenticated(out, strings.HasPrefix(r.URL.Path, "/rest"))
	case s.privileges.RefusesREST(out, r):
	default:
		serve(out)
	}
	if verdict != nil {
		verdict(out)
	}
	out.Send(w)
}

// serveSession logs in and out of the one session by which all of vCenter is reached.
func (s *Server) serveSession(out *traffic.Answer, r *http.Request) {
	old := strings.HasPrefix(r.URL.Path, "/rest")
	switch {
	case r.Method == http.MethodPost && r.URL.Query().Get("~action") == "":
		s.openSession(out, r, old)
	case !s.alive(r, TokenOf(r)):
		unauthenticated(out, old)
	case r.Method == http.MethodDelete:
		k := &core.Call{Wire: traffic.Inner, Token: TokenOf(r), Request: r}
		s.perform(k, sessionManager, "Logout", &types.Logout{This: sessionManager})
		out.Status = http.StatusNoContent
	default:
		WriteREST(out, http.StatusOK, old, map[string]any{"user": s.Options.Credentials.Username})
	}
}

func (s *Server) openSession(out *traffic.Answer, r *http.Request, old bool) {
	token := ""
	if user, password, ok := r.BasicAuth(); ok {
		token = s.login(r, user, password)
	}
	if token == "" {
		unauthenticated(out, old)
		return
	}
	if old && !strings.EqualFold(r.Header.Get("vmware-use-header-authn"), "true") {
		http.SetCookie(out, &http.Cookie{Name: TokenHeader, Value: token, Path: "/rest"})
	}
	status := http.StatusOK
	if !old {
		status = http.StatusCreated
		out.Header().Set(TokenHeader, token)
	}
	WriteREST(out, status, old, token)
}

// WriteREST writes a value as the old form or the new one has it.
func WriteREST(w http.ResponseWriter, status int, old bool, value any) {
	if old {
		value = map[string]any{"value": value}
	}
	traffic.WriteJSON(w, status, value)
}

var sessionManager = types.ManagedObjectReference{Type: "SessionManager", Value: "SessionManager"}

// login opens a session and gives its token, or "" for wrong credentials.
func (s *Server) login(r *http.Request, user, password string) string {
	k := &core.Call{Wire: traffic.Inner, Request: r}
	return sessionOf(s.perform(k, sessionManager, "Login",
		&types.Login{This: sessionManager, UserName: user, Password: password}))
}

// alive tells whether the token opens a session, and counts as its use.
func (s *Server) alive(r *http.Request, token string) bool {
	if token == "" {
		return false
	}
	k := &core.Call{Wire: traffic.Inner, Token: token, Request: r}
	this := types.ManagedObjectReference{Type: "ServiceInstance", Value: "ServiceInstance"}
	s.perform(k, this, "CurrentTime", &types.CurrentTime{This: this})
	return k.Result != nil && k.Result.Fault() == nil
}

// TokenOf is a request's session, or nothing.
func TokenOf(r *http.Request) string {
	if token := r.Header.Get(TokenHeader); token != "" {
		return token
	}
	if cookie, err := r.Cookie(TokenHeader); err == nil {
		return cookie.Value
	}
	return ""
}

func unauthenticated(w http.ResponseWriter, old bool) {
	if old {
		traffic.WriteJSON(w, http.StatusUnauthorized, map[string]any{
			"type":  "com.vmware.vapi.std.errors.unauthenticated",
			"value": map[string]any{"messages": []any{}},
		})
		return
	}
	traffic.WriteJSON(w, http.StatusUnauthorized, map[string]any{"error_type": "UNAUTHENTICATED", "messages": []any{}})
}

var ids = regexp.MustCompile(`[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}`)

// RestName is how a REST call is counted and matched: without /rest, ids or query, but with its action.
func RestName(r *http.Request) string {
	name := r.Method + " " + ids.ReplaceAllString(strings.TrimPrefix(r.URL.Path, "/rest"), "{id}")
	for _, key := range []string{"~action", "action"} {
		if action := r.URL.Query().Get(key); action != "" {
			name += "?" + key + "=" + action
		}
	}
	return name
}

// Issued are the tokens of all sessions that were ever opened.
type Issued struct {
	mu     sync.Mutex
	tokens []string
}

func (i *Issued) add(token string) {
	if token != "" {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.tokens = append(i.tokens, token)
	}
}

// All gives the tokens so far.
func (i *Issued) All() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return append([]string{}, i.tokens...)
}

// sessionOf is the token of a login's answer; the library sends it as a cookie.
func sessionOf(out *traffic.Answer) string {
	for _, cookie := range (&http.Response{Header: out.Header()}).Cookies() {
		if cookie.Name == soap.SessionCookieName {
			return cookie.Value
		}
	}
	return ""
}

// EndSessions ends every session of a client, and tells how many there were.
func (s *Server) EndSessions() int {
	ctx := s.Fresh()
	manager := ctx.Session.Get(sessionManager).(*simulator.SessionManager)
	var keys []string
	for _, session := range manager.SessionList {
		if session.UserName != s.Inner.UserName {
			keys = append(keys, session.Key)
		}
	}
	for _, key := range keys {
		// One by one: a session that went by itself meanwhile must not save the others.
		manager.TerminateSession(ctx, &types.TerminateSession{SessionId: []string{key}})
	}
	s.Reap()
	return len(keys)
}

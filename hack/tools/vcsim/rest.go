package main

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"sync"

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
		mux.HandleFunc(path, s.serveSession)
	}
	mux.HandleFunc("/rest/", s.serveREST)
	mux.HandleFunc("/api/", s.serveREST)
}

// serveSession logs in and out of the one session by which all of vCenter is reached.
func (s *Sim) serveSession(w http.ResponseWriter, r *http.Request) {
	s.counters.add(wireREST, restName(r))
	old := strings.HasPrefix(r.URL.Path, "/rest")
	switch {
	case r.Method == http.MethodPost && r.URL.Query().Get("~action") == "":
		user, password, ok := r.BasicAuth()
		token := ""
		if ok {
			token = s.login(r, user, password)
		}
		if token == "" {
			unauthenticated(w, old)
			return
		}
		if old && !strings.EqualFold(r.Header.Get("vmware-use-header-authn"), "true") {
			http.SetCookie(w, &http.Cookie{Name: tokenHeader, Value: token, Path: "/rest"})
		}
		if old {
			writeJSON(w, http.StatusOK, map[string]any{"value": token})
			return
		}
		w.Header().Set(tokenHeader, token)
		writeJSON(w, http.StatusCreated, token)
	case r.Method == http.MethodDelete:
		token := tokenOf(r)
		if !s.alive(r, token) {
			unauthenticated(w, old)
			return
		}
		s.perform(&call{wire: wireInner, token: token, request: r}, sessionManager, "Logout", &types.Logout{This: sessionManager})
		w.WriteHeader(http.StatusNoContent)
	default:
		if !s.alive(r, tokenOf(r)) {
			unauthenticated(w, old)
			return
		}
		info := map[string]any{"user": s.options.Credentials.Username}
		if old {
			writeJSON(w, http.StatusOK, map[string]any{"value": info})
			return
		}
		writeJSON(w, http.StatusOK, info)
	}
}

// serveREST forwards to the library's vAPI handlers, under the shared session, what a live session asks for.
func (s *Sim) serveREST(w http.ResponseWriter, r *http.Request) {
	inner := tokenOf(r) != "" && tokenOf(r) == s.shared.current()
	if !inner {
		s.counters.add(wireREST, restName(r))
		if !s.alive(r, tokenOf(r)) {
			unauthenticated(w, strings.HasPrefix(r.URL.Path, "/rest"))
			return
		}
	}
	out := newAnswer()
	var verdict func(*answer)
	goOn := true
	if !inner {
		verdict, goOn = s.strike(out, r)
	}
	if goOn {
		r = r.Clone(r.Context())
		r.Header.Set(tokenHeader, s.sharedSession())
		r.Header.Del("Cookie")
		s.vapi.ServeHTTP(out, r)
	}
	if verdict != nil {
		verdict(out)
	}
	out.send(w)
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

package library

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"layercake.invalid/sim/vcsim/traffic"
	"layercake.invalid/sim/vcsim/wire"
)

// filesPath is where the library serves the files of items.
const filesPath = "/rest/com/vmware/cis/data/"

// restSession is the one vAPI session that stands in for every client's: the library keeps its own kind of session
// there, but since 8.0 U3 one token opens VIM and vAPI alike.
type restSession struct {
	mu sync.Mutex
	id string
}

// RouteREST registers both forms of the Automation API.
func (l *Libraries) RouteREST(mux *http.ServeMux) {
	mux.HandleFunc("/rest/", l.serveREST)
	mux.HandleFunc("/api/", l.serveREST)
	l.routeAPI(mux)
	l.routeModules(mux)
	l.routeCapture(mux)
	l.routeUploads(mux)
}

// serveREST serves what the library's vAPI handlers have, in their own form.
func (l *Libraries) serveREST(w http.ResponseWriter, r *http.Request) {
	if token := wire.TokenOf(r); token != "" && token == l.shared.current() {
		out := traffic.NewAnswer()
		l.forward(out, r)
		out.Send(w)
		return
	}
	// The URL of a file in a download session needs no login: VMware's samples of clients send none with it.
	ticket := r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, filesPath)
	l.wire.Guarded(w, r, []string{wire.RestName(r)}, !ticket, func(out *traffic.Answer) { l.forward(out, r) })
}

// forward has the library serve the request, under the shared session.
func (l *Libraries) forward(out *traffic.Answer, r *http.Request) {
	r = r.Clone(r.Context())
	r.Header.Set(wire.TokenHeader, l.sharedSession())
	r.Header.Del("Cookie")
	var body []byte
	deploys := strings.HasPrefix(r.URL.Path, deployPath) && r.URL.Query().Get("~action") == "deploy"
	if deploys {
		body, _ = io.ReadAll(r.Body)
		if unexpected := l.unexpectedMember(body); unexpected != "" {
			wire.RestError(out, http.StatusBadRequest, "unexpected_input", fmt.Sprintf("Unexpected field %s in the deployment_spec", unexpected))
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if missing := l.missingFile(strings.TrimPrefix(r.URL.Path, deployPath)); missing != "" {
			wire.RestError(out, http.StatusNotFound, "not_found", "The item has no file "+missing)
			return
		}
	}
	l.vapi.ServeHTTP(out, r)
	if deploys {
		l.complete(body, r.URL.Path, out)
	}
	restore(out, r.URL.Path)
	l.showContent(out, r)
	action := r.URL.Query().Get("~action")
	lists := r.Method == http.MethodGet || action == "find" || strings.HasPrefix(action, "list-")
	if lists && strings.TrimSpace(out.Body.String()) == `{"value":null}` {
		out.Replace(out.Status, "application/json", `{"value":[]}`)
	}
}

// unexpectedMember names a member of a deployment that this vCenter does not know: the one that accepts licence agreements
// under its other name.
func (l *Libraries) unexpectedMember(body []byte) string {
	var deploy struct {
		Spec map[string]any `json:"deployment_spec"`
	}
	_ = json.Unmarshal(body, &deploy)
	for member := range deploy.Spec {
		if strings.EqualFold(member, l.Options.Spec.EULAMember) && member != l.Options.Spec.EULAMember {
			return member
		}
	}
	return ""
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
func restore(out *traffic.Answer, path string) {
	var body struct {
		Value map[string]json.RawMessage `json:"value"`
	}
	if json.Unmarshal(out.Body.Bytes(), &body) != nil || len(body.Value) == 0 {
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
	out.Body.Reset()
	_ = json.NewEncoder(out).Encode(body)
}

// showContent gives an item the size and the version of what it was filled with; the library has neither.
func (l *Libraries) showContent(out *traffic.Answer, r *http.Request) {
	of, ok := l.contentOf(r.URL.Path)
	var body struct {
		Value map[string]any `json:"value"`
	}
	if !ok || r.Method != http.MethodGet || json.Unmarshal(out.Body.Bytes(), &body) != nil || body.Value == nil {
		return
	}
	body.Value["size"], body.Value["content_version"] = of.size, strconv.Itoa(of.version)
	out.Body.Reset()
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
func (l *Libraries) sharedSession() string {
	l.shared.mu.Lock()
	defer l.shared.mu.Unlock()
	const path = "/rest/com/vmware/cis/session"
	request := func(method, path string) *traffic.Answer {
		r, _ := http.NewRequest(method, path, http.NoBody)
		r.Header.Set(wire.TokenHeader, l.shared.id)
		r.Header.Set("vmware-use-header-authn", "true")
		r.SetBasicAuth(l.Inner.UserName, l.Inner.Password)
		out := traffic.NewAnswer()
		l.vapi.ServeHTTP(out, r)
		return out
	}
	if l.shared.id != "" && request(http.MethodPost, path+"?~action=get").Status == http.StatusOK {
		return l.shared.id
	}
	var made struct{ Value string }
	_ = json.Unmarshal(request(http.MethodPost, path).Body.Bytes(), &made)
	l.shared.id = made.Value
	return l.shared.id
}

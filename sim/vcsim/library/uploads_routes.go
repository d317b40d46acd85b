package library

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"layercake.invalid/sim/vcsim/access"
	"layercake.invalid/sim/vcsim/traffic"
	"layercake.invalid/sim/vcsim/wire"
)

const libraryPath = "/com/vmware/content/library"

// libraryCall is a call that makes or fills an item, whichever its form.
type libraryCall struct {
	old   bool // the form of /rest
	id    string
	token string
	query url.Values
	body  []byte
}

// read takes the parameters of a call, and no others.
func (c *libraryCall) read(into any) *vapiError {
	if len(c.body) == 0 {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(c.body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return invalid(err.Error())
	}
	return nil
}

// vapiError is an error of the Automation API.
type vapiError struct {
	status     int
	kind, text string
}

func invalid(text string) *vapiError {
	return &vapiError{http.StatusBadRequest, "INVALID_ARGUMENT", text}
}

func notAllowed(text string) *vapiError {
	return &vapiError{http.StatusBadRequest, "NOT_ALLOWED_IN_CURRENT_STATE", text}
}

func notFound(what, id string) *vapiError {
	return &vapiError{http.StatusNotFound, "NOT_FOUND", "there is no " + what + " " + id}
}

func localized(text string) map[string]any {
	return map[string]any{"id": "vcsim.upload", "default_message": text, "args": []any{}}
}

// libraryRoute is a call in both forms.
type libraryRoute struct {
	verb, api, rest    string
	action, restAction string
	wrap               string // the member of the body in which /rest has the parameters
	status             int    // of /api; 204 where there is no answer
	privilege          string
	serve              func(*Libraries, *libraryCall) (any, *vapiError)
	shared             bool // the pattern in /api is one of forms, too
}

var (
	apiItem, apiUpdate   = "/api/content/library/item", "/api/content/library/item/update-session"
	restItem, restUpdate = "/rest" + libraryPath + "/item", "/rest" + libraryPath + "/item/update-session"
	restFile             = "/rest" + libraryPath + "/item/updatesession/file"
)

var libraryRoutes = []libraryRoute{
	{verb: "POST", api: apiItem, rest: restItem, wrap: "create_spec", status: 201, privilege: "ContentLibrary.AddLibraryItem", serve: (*Libraries).createItem, shared: true},
	{verb: "DELETE", api: apiItem + "/{id}", rest: restItem + "/{id}", privilege: "ContentLibrary.DeleteLibraryItem", serve: (*Libraries).deleteItem},
	{verb: "POST", api: apiUpdate, rest: restUpdate, wrap: "create_spec", status: 201, privilege: "ContentLibrary.UpdateSession", serve: (*Libraries).createSession},
	{verb: "GET", api: apiUpdate, rest: restUpdate, status: 200, privilege: "ContentLibrary.UpdateSession", serve: (*Libraries).listSessions},
	{verb: "GET", api: apiUpdate + "/{id}", rest: restUpdate + "/{id}", status: 200, serve: (*Libraries).getSession},
	{verb: "DELETE", api: apiUpdate + "/{id}", rest: restUpdate + "/{id}", serve: (*Libraries).deleteSession},
	{verb: "POST", api: apiUpdate + "/{id}", rest: restUpdate + "/{id}", action: "complete", restAction: "complete", serve: (*Libraries).completeSession},
	{verb: "POST", api: apiUpdate + "/{id}", rest: restUpdate + "/{id}", action: "keep-alive", restAction: "keep-alive", serve: (*Libraries).keepSession},
	{verb: "POST", api: apiUpdate + "/{id}", rest: restUpdate + "/{id}", action: "cancel", restAction: "cancel", serve: (*Libraries).cancelSession},
	{verb: "POST", api: apiUpdate + "/{id}", rest: restUpdate + "/{id}", action: "fail", restAction: "fail", serve: (*Libraries).failSession},
	{verb: "GET", api: apiUpdate + "/{id}/file", rest: restFile, status: 200, serve: (*Libraries).listFiles},
	{verb: "POST", api: apiUpdate + "/{id}/file", rest: restFile + "/{id}", restAction: "add", wrap: "file_spec", status: 201, serve: (*Libraries).addFile},
	{verb: "POST", api: apiUpdate + "/{id}/file", rest: restFile + "/{id}", action: "validate", restAction: "validate", status: 200, serve: (*Libraries).validateFiles},
}

// routeUploads registers the calls; those that differ by action only share a handler.
func (l *Libraries) routeUploads(mux *http.ServeMux) {
	byPattern := map[string]map[string]libraryRoute{}
	add := func(pattern, action string, route libraryRoute) {
		if byPattern[pattern] == nil {
			byPattern[pattern] = map[string]libraryRoute{}
		}
		byPattern[pattern][action] = route
	}
	for _, route := range libraryRoutes {
		if !route.shared {
			add(route.verb+" "+route.api, "action="+route.action, route)
		}
		add(route.verb+" "+route.rest, "~action="+route.restAction, route)
	}
	for pattern, byAction := range byPattern {
		key := "action"
		if strings.Contains(pattern, " /rest") {
			key = "~action"
		}
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if route, ok := byAction[key+"="+r.URL.Query().Get(key)]; ok {
				l.serveLibrary(w, r, route)
				return
			}
			l.serveREST(w, r)
		})
	}
	mux.HandleFunc("PUT /cls/data/{key}/{name}", l.serveUpload)
}

var uuidForm = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)

func (l *Libraries) serveLibrary(w http.ResponseWriter, r *http.Request, route libraryRoute) {
	l.wire.Guarded(w, r, []string{wire.RestName(r)}, true, func(out *traffic.Answer) {
		old := strings.HasPrefix(r.URL.Path, "/rest")
		value, no := any(nil), (*vapiError)(nil)
		in, no := route.understand(r, old)
		switch {
		case no != nil:
		case route.privilege != "" && l.privileges.Lacks(route.privilege):
			access.Denied(out, old, route.privilege)
			return
		default:
			value, no = route.serve(l, in)
		}
		switch {
		case no != nil && old:
			wire.RestError(out, no.status, strings.ToLower(no.kind), no.text)
		case no != nil:
			wire.APIError(out, no.status, no.kind, no.text)
		case value == nil && old:
		case value == nil:
			out.Status = http.StatusNoContent
		case old:
			wire.WriteREST(out, http.StatusOK, true, value)
		default:
			wire.WriteREST(out, route.status, false, value)
		}
	})
}

// understand reads a call in its form. The token is a header in the one form and a member of the body in the other.
func (route libraryRoute) understand(r *http.Request, old bool) (*libraryCall, *vapiError) {
	in := &libraryCall{old: old, id: strings.TrimPrefix(r.PathValue("id"), "id:"), query: r.URL.Query()}
	var err error
	if in.body, err = io.ReadAll(r.Body); err != nil {
		return nil, invalid(err.Error())
	}
	if !old {
		in.token = r.Header.Get("Client-Token")
	} else if route.wrap != "" {
		var members map[string]json.RawMessage
		if err := json.Unmarshal(in.body, &members); err != nil || members[route.wrap] == nil {
			return nil, invalid("the body needs " + route.wrap)
		}
		_ = json.Unmarshal(members["client_token"], &in.token)
		in.body = members[route.wrap]
	}
	if in.token != "" && !uuidForm.MatchString(in.token) {
		return nil, invalid("client_token is no UUID")
	}
	return in, nil
}

package wire

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/core"
	"layercake.invalid/sim/vcsim/traffic"
	"layercake.invalid/sim/vcsim/vim"
)

// RouteSOAP registers the SOAP wire: a client's, and the library's own.
func (s *Server) RouteSOAP(mux *http.ServeMux) {
	for _, path := range []string{"/sdk", "/sdk/vimService"} {
		mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) { s.serveSOAP(w, r, traffic.SOAP) })
	}
	mux.HandleFunc("POST "+traffic.InnerPath, func(w http.ResponseWriter, r *http.Request) { s.serveSOAP(w, r, traffic.Inner) })
}

// serveSOAP lets the library decode and encode, with the cookie replaced by the number of the call.
func (s *Server) serveSOAP(w http.ResponseWriter, r *http.Request, wire string) {
	if wire == traffic.SOAP && s.refusedSOAP(w, r) {
		return
	}
	k := &core.Call{Wire: wire, Request: r}
	if cookie, err := r.Cookie(soap.SessionCookieName); err == nil {
		k.Token = cookie.Value
	}
	out := traffic.NewAnswer()
	s.serveCall(out, r, k)
	out.Header().Set("Content-Type", "text/xml; charset=utf-8")
	if _, ok := k.Result.(*vim.TaskAnswer); ok {
		// The library names the element after the Go type; ours stands for any method's.
		body := bytes.ReplaceAll(out.Body.Bytes(), []byte("TaskReturn"), []byte(k.Name+"Response"))
		out.Body.Reset()
		_, _ = out.Body.Write(body)
	}
	if k.Verdict != nil {
		k.Verdict(out)
	}
	out.Send(w)
}

func (s *Server) serveCall(out *traffic.Answer, r *http.Request, k *core.Call) {
	id, done := s.AddCall(k)
	defer done()
	r = r.Clone(r.Context())
	r.Header.Set("Cookie", soap.SessionCookieName+"="+id)
	s.Service.ServeSDK(out, r)
	s.Issued.add(sessionOf(out))
}

// perform runs a method that did not come as XML: the library gets a minimal envelope, the body goes beside it.
func (s *Server) perform(k *core.Call, this types.ManagedObjectReference, name string, body types.AnyType) *traffic.Answer {
	if vim.OfPolicies(this) {
		// Methods of another service: the envelope names one that the library can read here.
		k.Name, k.This = name, this
		name = "CurrentTime"
	}
	var value bytes.Buffer
	_ = xml.EscapeText(&value, []byte(this.Value))
	envelope := fmt.Sprintf(`<Envelope xmlns="http://schemas.xmlsoap.org/soap/envelope/"><Body>`+
		`<%s xmlns="urn:vim25"><_this type="%s">%s</_this></%s></Body></Envelope>`, name, this.Type, value.String(), name)
	r := k.Request.Clone(k.Request.Context())
	r.Method = http.MethodPost
	r.URL.Path = "/sdk"
	r.Body = io.NopCloser(strings.NewReader(envelope))
	k.Body = body
	out := traffic.NewAnswer()
	s.serveCall(out, r, k)
	return out
}

package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// routeSOAP registers the SOAP wire: a client's, and the library's own.
func (s *Sim) routeSOAP(mux *http.ServeMux) {
	for _, path := range []string{"/sdk", "/sdk/vimService"} {
		mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) { s.serveSOAP(w, r, wireSOAP) })
	}
	mux.HandleFunc("POST "+innerPath, func(w http.ResponseWriter, r *http.Request) { s.serveSOAP(w, r, wireInner) })
}

// serveSOAP lets the library decode and encode, with the cookie replaced by the number of the call.
func (s *Sim) serveSOAP(w http.ResponseWriter, r *http.Request, wire string) {
	if wire == wireSOAP && !s.options.LenientSOAP && s.refusedSOAP(w, r) {
		return
	}
	k := &call{wire: wire, request: r}
	if cookie, err := r.Cookie(soap.SessionCookieName); err == nil {
		k.token = cookie.Value
	}
	out := newAnswer()
	s.serveCall(out, r, k)
	out.Header().Set("Content-Type", "text/xml; charset=utf-8")
	if _, ok := k.result.(*taskAnswer); ok {
		// The library names the element after the Go type; ours stands for any method's.
		body := bytes.ReplaceAll(out.body.Bytes(), []byte("taskReturn"), []byte(k.name+"Response"))
		out.body.Reset()
		_, _ = out.body.Write(body)
	}
	if k.verdict != nil {
		k.verdict(out)
	}
	out.send(w)
}

func (s *Sim) serveCall(out *answer, r *http.Request, k *call) {
	id, done := s.calls.add(k)
	defer done()
	r = r.Clone(r.Context())
	r.Header.Set("Cookie", soap.SessionCookieName+"="+id)
	s.svc.ServeSDK(out, r)
	s.issued.add(sessionOf(out))
}

// perform runs a method that did not come as XML: the library gets a minimal envelope, the body goes beside it.
func (s *Sim) perform(k *call, this types.ManagedObjectReference, name string, body types.AnyType) *answer {
	if ofPolicies(this) {
		// Methods of another service: the envelope names one that the library can read here.
		k.name, k.this = name, this
		name = "CurrentTime"
	}
	var value bytes.Buffer
	_ = xml.EscapeText(&value, []byte(this.Value))
	envelope := fmt.Sprintf(`<Envelope xmlns="http://schemas.xmlsoap.org/soap/envelope/"><Body>`+
		`<%s xmlns="urn:vim25"><_this type="%s">%s</_this></%s></Body></Envelope>`, name, this.Type, value.String(), name)
	r := k.request.Clone(k.request.Context())
	r.Method = http.MethodPost
	r.URL.Path = "/sdk"
	r.Body = io.NopCloser(strings.NewReader(envelope))
	k.body = body
	out := newAnswer()
	s.serveCall(out, r, k)
	return out
}

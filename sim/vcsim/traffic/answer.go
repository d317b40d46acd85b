// Package traffic is what clients send and get: answers that are held back, counters, the journal and records.
package traffic

import (
	"bytes"
	"encoding/json"
	"io"
	"log"
	"net/http"
)

// Answer holds a response back until it is known what becomes of it.
type Answer struct {
	header http.Header
	Status int
	Body   bytes.Buffer
	Drop   bool // cut the connection instead of answering
}

// NewAnswer is an empty answer with status 200.
func NewAnswer() *Answer { return &Answer{header: http.Header{}, Status: http.StatusOK} }

// Header is part of http.ResponseWriter.
func (a *Answer) Header() http.Header { return a.header }

// WriteHeader is part of http.ResponseWriter.
func (a *Answer) WriteHeader(status int) { a.Status = status }

// Write is part of http.ResponseWriter.
func (a *Answer) Write(b []byte) (int, error) { return a.Body.Write(b) }

// Replace puts another body in place of the answer.
func (a *Answer) Replace(status int, contentType, body string) {
	a.header = http.Header{"Content-Type": []string{contentType}}
	a.Status = status
	a.Body.Reset()
	a.Body.WriteString(body)
}

// Send writes the answer, or cuts the connection.
func (a *Answer) Send(w http.ResponseWriter) {
	if a.Drop {
		panic(http.ErrAbortHandler)
	}
	for k, v := range a.header {
		w.Header()[k] = v
	}
	w.WriteHeader(a.Status)
	_, _ = w.Write(a.Body.Bytes())
}

// Quiet swallows what net/http tells about connections that a test cuts.
func Quiet() *log.Logger { return log.New(io.Discard, "", 0) }

// WriteJSON writes a value as the body of an answer.
func WriteJSON(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value)
}

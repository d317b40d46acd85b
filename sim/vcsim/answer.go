package main

import (
	"bytes"
	"encoding/json"
	"io"
	"log"
	"net/http"
)

// answer holds a response back until it is known what becomes of it.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
	drop   bool // cut the connection instead of answering
}

func newAnswer() *answer { return &answer{header: http.Header{}, status: http.StatusOK} }

// Header is part of http.ResponseWriter.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader is part of http.ResponseWriter.
func (a *answer) WriteHeader(status int) { a.status = status }

// Write is part of http.ResponseWriter.
func (a *answer) Write(b []byte) (int, error) { return a.body.Write(b) }

// replace puts another body in place of the answer.
func (a *answer) replace(status int, contentType, body string) {
	a.header = http.Header{"Content-Type": []string{contentType}}
	a.status = status
	a.body.Reset()
	a.body.WriteString(body)
}

// send writes the answer, or cuts the connection.
func (a *answer) send(w http.ResponseWriter) {
	if a.drop {
		panic(http.ErrAbortHandler)
	}
	for k, v := range a.header {
		w.Header()[k] = v
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body.Bytes())
}

// quiet swallows what net/http tells about connections that a test cuts.
func quiet() *log.Logger { return log.New(io.Discard, "", 0) }

func writeJSON(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value)
}

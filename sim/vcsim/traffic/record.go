package traffic

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
)

// RecordVariable names the folder into which the exchanges with clients are written, for test/wire-check.
const RecordVariable = "VCSIM_RECORD"

// Recorder writes down what clients ask and what they are answered: one line of JSON an exchange, one file a simulator.
type Recorder struct {
	mu   sync.Mutex
	file *os.File
	seen map[uint64]bool
}

// exchange is one line. Sessions and credentials in headers are left out.
type exchange struct {
	Method  string            `json:"method"`
	Path    string            `json:"path"`
	Headers map[string]string `json:"headers"`
	Request string            `json:"request"`
	Status  int               `json:"status"` // 0 where the connection was cut
	Answer  string            `json:"answer"`
}

var recordedHeaders = []string{"SOAPAction", "Content-Type", "Client-Token", "Accept"}

// NewRecorder begins a file, for its owner only; without a folder there is no recorder.
func NewRecorder(folder string) (*Recorder, error) {
	if folder == "" {
		return nil, nil
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	file, err := os.CreateTemp(folder, "traffic-*.jsonl")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", RecordVariable, err)
	}
	return &Recorder{file: file, seen: map[uint64]bool{}}, nil
}

// Recorded writes the exchanges of a handler down. They are read where the network delivers them, below all else.
func (r *Recorder) Recorded(next http.Handler) http.Handler {
	if r == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if !isAPI(req.URL.Path) {
			next.ServeHTTP(w, req)
			return
		}
		request, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		req.Body = io.NopCloser(bytes.NewReader(request))
		e := exchange{Method: req.Method, Path: req.URL.RequestURI(), Headers: map[string]string{}, Request: string(request)}
		for _, name := range recordedHeaders {
			if value := req.Header.Get(name); value != "" {
				e.Headers[name] = value
			}
		}
		out := &recordedAnswer{ResponseWriter: w}
		// Deferred: a connection that is cut on purpose ends in a panic.
		defer func() {
			e.Status, e.Answer = out.status, out.body.String()
			r.write(e)
		}()
		next.ServeHTTP(out, req)
	})
}

// isAPI tells whether a client calls an API by the path. Files have others, and the library calls itself under InnerPath.
func isAPI(path string) bool {
	return path == "/sdk" || path == "/pbm" || strings.HasPrefix(path, "/sdk/vim") ||
		strings.HasPrefix(path, "/api/") || strings.HasPrefix(path, "/rest/")
}

// alike are the parts in which exchanges of the same form differ.
var alike = regexp.MustCompile(`[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}|[0-9a-f]{32,}|\d+`)

// write leaves out what was written before but for numbers and ids.
func (r *Recorder) write(e exchange) {
	line, err := json.Marshal(e)
	if err != nil {
		return
	}
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(alike.ReplaceAllString(string(line), "0")))
	r.mu.Lock()
	defer r.mu.Unlock()
	if key := sum.Sum64(); !r.seen[key] {
		r.seen[key] = true
		if _, err := r.file.Write(append(line, '\n')); err != nil {
			log.Printf("%s: %v", filepath.Base(r.file.Name()), err)
		}
	}
}

// Close ends the file.
func (r *Recorder) Close() {
	if r != nil {
		_ = r.file.Close()
	}
}

type recordedAnswer struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

// WriteHeader is part of http.ResponseWriter.
func (a *recordedAnswer) WriteHeader(status int) {
	a.status = status
	a.ResponseWriter.WriteHeader(status)
}

// Write is part of io.Writer.
func (a *recordedAnswer) Write(p []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	_, _ = a.body.Write(p)
	return a.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (a *recordedAnswer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

package traffic

import (
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
)

// The ways by which a request comes in.
const (
	SOAP   = "soap"
	VIJSON = "vijson"
	REST   = "rest"
	Inner  = "" // the library calling itself: never counted, never faulted
)

// InnerPath is where the library's REST handlers reach the SOAP endpoint, so that their calls are known from a client's.
const InnerPath = "/inner/sdk"

// Counters hold how many requests of clients came in, by wire and method.
type Counters struct {
	mu     sync.Mutex
	total  int
	bytes  Bytes
	byWire map[string]map[string]int
}

// Add counts a request.
func (c *Counters) Add(wire, method string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byWire == nil {
		c.byWire = map[string]map[string]int{}
	}
	if c.byWire[wire] == nil {
		c.byWire[wire] = map[string]int{}
	}
	c.byWire[wire][method]++
	c.total++
}

// Bytes is what the bodies of requests and answers come to, in bytes.
type Bytes struct {
	Received int64 `json:"received"`
	Sent     int64 `json:"sent"`
}

func (c *Counters) transferred(received, sent int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bytes.Received += received
	c.bytes.Sent += sent
}

// Reset begins at zero.
func (c *Counters) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total, c.bytes, c.byWire = 0, Bytes{}, nil
}

// Snapshot has a member per wire, even where nothing came.
func (c *Counters) Snapshot() map[string]any {
	c.mu.Lock()
	defer c.mu.Unlock()
	byWire := map[string]map[string]int{}
	for _, wire := range []string{VIJSON, SOAP, REST} {
		byWire[wire] = map[string]int{}
		maps.Copy(byWire[wire], c.byWire[wire])
	}
	return map[string]any{"total": c.total, "bytes": c.bytes, "byWire": byWire}
}

// Metered counts the bytes of the requests of clients.
func (c *Counters) Metered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, InnerPath) {
			next.ServeHTTP(w, r)
			return
		}
		in, out := &meteredBody{ReadCloser: r.Body}, &meteredAnswer{ResponseWriter: w}
		r.Body = in
		// Deferred: a connection that is cut on purpose ends in a panic.
		defer func() { c.transferred(in.n, out.n) }()
		next.ServeHTTP(out, r)
	})
}

type meteredBody struct {
	io.ReadCloser
	n int64
}

// Read is part of io.Reader.
func (b *meteredBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.n += int64(n)
	return n, err
}

type meteredAnswer struct {
	http.ResponseWriter
	n int64
}

// Write is part of io.Writer.
func (a *meteredAnswer) Write(p []byte) (int, error) {
	n, err := a.ResponseWriter.Write(p)
	a.n += int64(n)
	return n, err
}

// Unwrap is for http.ResponseController.
func (a *meteredAnswer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

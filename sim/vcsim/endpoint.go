package main

import (
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"
)

// frontend is where vCenter is reached. It can be cut off for a while, and listens at the same address afterwards.
type frontend struct {
	handler http.Handler
	config  *tls.Config
	address net.Addr
	done    <-chan struct{} // closed when it is not to listen again

	mu     sync.Mutex
	server *http.Server
}

// newFrontend serves on the listener.
func newFrontend(l net.Listener, certificate tls.Certificate, handler http.Handler, done <-chan struct{}) *frontend {
	// HTTP/1.1 only: an aborted call is then an aborted connection, which is what the control API promises.
	config := &tls.Config{
		Certificates: []tls.Certificate{certificate},
		NextProtos:   []string{"http/1.1"},
		MinVersion:   tls.VersionTLS12,
	}
	f := &frontend{handler: handler, config: config, address: l.Addr(), done: done}
	f.server = serve(tls.NewListener(l, config), handler)
	return f
}

// serve serves on a listener until the server is closed.
func serve(l net.Listener, h http.Handler) *http.Server {
	server := &http.Server{Handler: h, ReadHeaderTimeout: 30 * time.Second, ErrorLog: quiet()}
	go func() { _ = server.Serve(l) }()
	return server
}

// whileCut closes every connection, refuses new ones while f runs, and listens again, as a restart of vpxd does.
func (f *frontend) whileCut(do func()) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	_ = f.server.Close()
	do()
	select {
	case <-f.done:
		return nil
	default:
	}
	l, err := net.Listen("tcp", f.address.String())
	if err != nil {
		return err
	}
	f.server = serve(tls.NewListener(l, f.config), f.handler)
	return nil
}

// close ends all connections at once.
func (f *frontend) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	_ = f.server.Close()
}

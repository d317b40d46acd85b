// Package wire receives calls over SOAP, VI/JSON and REST, and dispatches them.
package wire

import (
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"

	"layercake.invalid/sim/vcsim/access"
	"layercake.invalid/sim/vcsim/core"
	"layercake.invalid/sim/vcsim/outage"
	"layercake.invalid/sim/vcsim/traffic"
)

// Server serves SOAP, VI/JSON and the sessions of the Automation API.
type Server struct {
	*core.VCenter
	outages    *outage.Outages
	privileges *access.Privileges

	Issued Issued
	*Frontend
}

// New gives a server that does not listen yet.
func New(vc *core.VCenter, o *outage.Outages, p *access.Privileges) *Server {
	return &Server{VCenter: vc, outages: o, privileges: p}
}

// Listen serves on the listener.
func (s *Server) Listen(l net.Listener, certificate tls.Certificate, handler http.Handler) {
	s.Frontend = newFrontend(l, certificate, handler, s.Done)
}

// Frontend is where vCenter is reached. It can be cut off for a while, and listens at the same address afterwards.
type Frontend struct {
	handler http.Handler
	config  *tls.Config
	address net.Addr
	done    <-chan struct{} // closed when it is not to listen again

	mu     sync.Mutex
	server *http.Server
}

// newFrontend serves on the listener.
func newFrontend(l net.Listener, certificate tls.Certificate, handler http.Handler, done <-chan struct{}) *Frontend {
	// HTTP/1.1 only: an aborted call is then an aborted connection, which is what the control API promises.
	config := &tls.Config{
		Certificates: []tls.Certificate{certificate},
		NextProtos:   []string{"http/1.1"},
		MinVersion:   tls.VersionTLS12,
	}
	f := &Frontend{handler: handler, config: config, address: l.Addr(), done: done}
	f.server = Serve(tls.NewListener(l, config), handler)
	return f
}

// Serve serves on a listener until the server is closed.
func Serve(l net.Listener, h http.Handler) *http.Server {
	server := &http.Server{Handler: h, ReadHeaderTimeout: 30 * time.Second, ErrorLog: traffic.Quiet()}
	go func() { _ = server.Serve(l) }()
	return server
}

// WhileCut closes every connection, refuses new ones while do runs, and then listens again, as a restart of vpxd does.
func (f *Frontend) WhileCut(do func()) error {
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
	f.server = Serve(tls.NewListener(l, f.config), f.handler)
	return nil
}

// Close ends all connections at once.
func (f *Frontend) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	_ = f.server.Close()
}

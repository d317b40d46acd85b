package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// Sim is one simulated vCenter with its listeners.
type Sim struct {
	options  Options
	svc      *simulator.Service
	registry *simulator.Registry
	vapi     http.Handler
	model    *simulator.Model
	dir      string
	address  string // of the endpoint

	calls     calls
	counters  counters
	journal   journal
	hub       *hub
	machines  *machines
	shared    restSession
	issued    issued
	watchers  watchers
	waits     atomic.Int64 // in progress
	first     sync.Mutex   // see target
	overrides map[string]override
	onCall    override // receives every call
	ofAnother override // carries out calls of the policies' service
	rules     rules
	claims    claims
	modules   modules
	captures  captures
	uploads   uploads
	images    images
	outages   outages
	clock     clock
	backups   backups
	admission sync.Mutex   // of reservations
	files     sync.RWMutex // see storage.go
	admitted  admitted
	turn      atomic.Int64 // of hosts
	inner     types.Login  // how the library's own handlers log in
	found     Inventory
	policies  *simulator.Registry // storage policies' own
	fitting   map[string][]string // datastores that satisfy a policy, by its id

	recorder *recorder

	privileges privileges

	done     chan struct{} // closed by Close
	listener net.Listener
	control  net.Listener
	front    *frontend

	controlServer *http.Server
}

// Ready is the one line that tells a parent where everything is.
type Ready struct {
	URL     string `json:"url"`
	Control string `json:"control"`
	Inventory
}

// Start builds the inventory, imports the libraries and listens.
func Start(o Options) (*Sim, error) {
	certificate, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("server certificate: %w", err)
	}
	s := &Sim{options: o, inner: types.Login{UserName: "vcsim-inner", Password: rand.Text()}, done: make(chan struct{}), overrides: map[string]override{}}
	s.modules.byID = map[string]*module{}
	s.captures.items = map[string]string{}
	s.uploads.begin()
	s.outages.forget()
	if err := s.start(certificate); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Sim) start(certificate tls.Certificate) error {
	ctx := context.Background()
	var err error
	if s.recorder, err = newRecorder(s.options.RecordFolder); err != nil {
		return err
	}
	if s.listener, err = net.Listen("tcp", s.options.Listen); err != nil {
		return err
	}
	s.address = s.listener.Addr().String()
	if s.control, err = net.Listen("tcp", s.options.ControlListen); err != nil {
		return err
	}
	if s.dir, err = os.MkdirTemp("", "layercake-vcsim-"); err != nil {
		return err
	}
	if err := s.emptyModel(); err != nil {
		return err
	}
	if s.found, err = build(ctx, s.svc, s.options.Spec, s.dir); err != nil {
		return err
	}
	s.open(certificate)
	s.connectLibrary()
	s.takeOver()
	if err := s.connectPolicies(); err != nil {
		return err
	}
	s.serve(certificate)
	return s.importLibraries()
}

// takeOver puts ours in place of what the library does otherwise than vCenter.
func (s *Sim) takeOver() {
	for _, methods := range []map[string]override{
		s.clockMethods(), s.storageMethods(), s.inventoryMethods(), s.computeMethods(), s.propertiesMethods(), s.accessMethods(),
	} {
		s.replace(methods)
	}
	s.onCall, s.ofAnother = s.dispatch, s.invokePolicies
	if s.options.GuestDelay.set {
		s.hub.onBoot = s.bootGuest
	}
}

// routes tells the wires apart.
func (s *Sim) routes() http.Handler {
	mux := http.NewServeMux()
	s.routeSOAP(mux)
	s.routeVIJSON(mux)
	s.routeSessions(mux)
	s.routeREST(mux)
	mux.HandleFunc("POST /pbm", s.servePolicies)
	mux.Handle("/", s.svc.ServeMux)
	return s.recorder.recorded(s.counters.metered(asPolicies(mux)))
}

func (s *Sim) serve(certificate tls.Certificate) {
	s.front = newFrontend(s.listener, certificate, s.routes(), s.done)
	s.controlServer = serve(s.control, s.controlHandler())
}

// Ready tells where the simulator listens and what its inventory is.
func (s *Sim) Ready() Ready {
	return Ready{URL: s.url().String(), Control: "http://" + s.control.Addr().String(), Inventory: s.found}
}

// Close ends all connections at once and removes the files.
func (s *Sim) Close() {
	close(s.done)
	for _, l := range []net.Listener{s.listener, s.control} {
		if l != nil {
			_ = l.Close()
		}
	}
	if s.front != nil {
		s.front.close()
		_ = s.controlServer.Close()
	}
	s.recorder.close()
	s.removeModel()
	if s.dir != "" {
		_ = os.RemoveAll(s.dir)
	}
}

package main

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vmware/govmomi/simulator"
	vapi "github.com/vmware/govmomi/vapi/simulator"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/types"
)

// Options are everything that a simulator is started with.
type Options struct {
	Listen         string
	ControlListen  string
	CertFile       string
	KeyFile        string
	Credentials    Credentials
	Spec           Spec
	StockCollector bool
	LenientSOAP    bool
	GuestDelay     delay
	RealGuests     bool   // see shutdownGuest
	RecordFolder   string // see recorder
}

// Sim is one simulated vCenter with its listeners.
type Sim struct {
	options  Options
	svc      *simulator.Service
	registry *simulator.Registry
	vapi     http.Handler
	model    *simulator.Model
	dir      string

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
	admitted  map[ref]bool // being powered on; guarded by the lock of machines
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
	servers  []*http.Server

	frontLock   sync.Mutex // see controlCut
	frontServer *http.Server
	frontTLS    *tls.Config
}

// Ready is the one line that tells a parent where everything is.
type Ready struct {
	URL     string `json:"url"`
	Control string `json:"control"`
	Inventory
}

// innerPath is where the library's REST handlers reach the SOAP endpoint, so that their calls are known from a client's.
const innerPath = "/inner/sdk"

// Start builds the inventory, imports the libraries and listens.
func Start(o Options) (*Sim, error) {
	certificate, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("server certificate: %w", err)
	}
	s := &Sim{options: o, inner: types.Login{UserName: "vcsim-inner", Password: rand.Text()}, done: make(chan struct{})}
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
	s.endpoints(certificate)
	if err := s.connectPolicies(); err != nil {
		return err
	}
	s.serve(certificate)
	return s.importLibraries(ctx)
}

// emptyModel makes a vCenter without any content.
func (s *Sim) emptyModel() error {
	s.model = simulator.VPX()
	s.model.Datacenter = 0
	if err := s.model.Create(); err != nil {
		return err
	}
	s.svc = s.model.Service
	s.registry = s.svc.Context.Map

	instance := s.registry.Get(vim25.ServiceInstance).(*simulator.ServiceInstance)
	about := &instance.Content.About
	about.ApiVersion = s.options.Spec.APIRelease
	about.Version = "8.0.3"
	about.Build = "24022515"
	about.FullName = "VMware vCenter Server 8.0.3 build-24022515 (simulated)"
	about.InstanceUuid = newUUID()

	options := s.registry.OptionManager()
	options.Setting = append(options.Setting,
		&types.OptionValue{Key: "config.vmacore.soap.sessionTimeout", Value: (2 * time.Hour).String()},
		&types.OptionValue{Key: "vcsim.server.url", Value: s.url().String()})
	return nil
}

// endpoints connects the library to the world outside: who may log in, where it is reached, what it serves.
func (s *Sim) endpoints(certificate tls.Certificate) {
	s.svc.Listen = s.url()
	s.svc.Listen.User = url.UserPassword(s.options.Credentials.Username, s.options.Credentials.Password)
	sessions := s.registry.SessionManager()
	sessions.ServiceHostName = s.url().Host
	sessions.ValidLogin = s.validLogin
	config := &tls.Config{Certificates: []tls.Certificate{certificate}}
	sessions.TLS = func() *tls.Config { return config }

	s.svc.RegisterSDK(s.registry, vim25.Path+"/vimService", innerPath)
	mux := s.svc.ServeMux
	mux.HandleFunc(vim25.Path+"/vimServiceVersions.xml", s.svc.ServiceVersions)
	mux.HandleFunc("/folder/", s.svc.ServeDatastore)
	mux.HandleFunc("/nfc/", simulator.ServeNFC)

	inner := s.url()
	inner.Path = innerPath
	inner.User = url.UserPassword(s.inner.UserName, s.inner.Password)
	_, handler := vapi.New(inner, s.registry)
	s.vapi = handler
	s.svc.Handle("/rest/", handler)

	s.hub = newHub(s.registry)
	s.machines = newMachines(s.svc, s.hub, s.done)
	s.connect()
	s.admitted = map[ref]bool{}
	s.takeOver()
	go s.reapEverySecond()
	if s.options.GuestDelay.set {
		s.hub.onBoot = s.bootGuest
	}
}

// takeOver puts ours in place of what the library does otherwise than vCenter.
func (s *Sim) takeOver() {
	s.overrides = map[string]override{
		"AcquireTicket":                s.acquireTicket,
		"AttachDisk_Task":              s.attachDisk,
		"CloneVM_Task":                 s.cloneVM,
		"CreateVM_Task":                s.createVM,
		"Destroy_Task":                 s.destroy,
		"CreateSnapshot_Task":          s.createSnapshot,
		"DetachDisk_Task":              s.detachDisk,
		"Fetch":                        s.fetch,
		"FetchUserPrivilegeOnEntities": s.fetchPrivileges,
		"FindByUuid":                   s.findByUUID,
		"ImportVApp":                   s.importVApp,
		"MoveIntoFolder_Task":          s.moveIntoFolder,
		"PowerOffVM_Task":              s.powerOff,
		"PowerOnVM_Task":               s.powerOn,
		"PromoteDisks_Task":            s.promoteDisks,
		"CurrentTime":                  s.currentTime,
		"CustomizeVM_Task":             s.customize,
		"QueryEvents":                  s.queryEvents,
		"RebootGuest":                  s.rebootGuest,
		"ReconfigVM_Task":              s.reconfigVM,
		"Rename_Task":                  s.rename,
		"ResetVM_Task":                 s.reset,
		"ShutdownGuest":                s.shutdownGuest,
		"SuspendVM_Task":               s.suspend,
		"StandbyGuest":                 s.standbyGuest,
	}
	if !s.options.StockCollector {
		ours := &collector{}
		ours.Self = s.registry.Get(vim25.ServiceInstance).(*simulator.ServiceInstance).Content.PropertyCollector
		s.registry.Put(ours)
		s.overrides["CreateContainerView"] = s.createContainerView
	}
}

// validLogin compares in constant time; the library's own user is known to nobody outside.
func (s *Sim) validLogin(login *types.Login) bool {
	same := func(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
	outer := same(login.UserName, s.options.Credentials.Username) && same(login.Password, s.options.Credentials.Password)
	return outer || same(login.UserName, s.inner.UserName) && same(login.Password, s.inner.Password)
}

func (s *Sim) url() *url.URL {
	return &url.URL{Scheme: "https", Host: s.listener.Addr().String(), Path: vim25.Path}
}

func (s *Sim) serve(certificate tls.Certificate) {
	// HTTP/1.1 only: an aborted call is then an aborted connection, which is what the control API promises.
	config := &tls.Config{
		Certificates: []tls.Certificate{certificate},
		NextProtos:   []string{"http/1.1"},
		MinVersion:   tls.VersionTLS12,
	}
	s.frontTLS = config
	s.frontServer = s.started(tls.NewListener(s.listener, config), s.front())
	s.servers = append(s.servers, s.started(s.control, s.controlHandler()))
}

func (s *Sim) started(l net.Listener, h http.Handler) *http.Server {
	server := &http.Server{Handler: h, ReadHeaderTimeout: 30 * time.Second, ErrorLog: quiet()}
	go func() { _ = server.Serve(l) }()
	return server
}

// openFront listens again where the endpoint was before it was cut off.
func (s *Sim) openFront() error {
	l, err := net.Listen("tcp", s.listener.Addr().String())
	if err != nil {
		return err
	}
	s.frontServer = s.started(tls.NewListener(l, s.frontTLS), s.frontServer.Handler)
	return nil
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
	s.frontLock.Lock()
	defer s.frontLock.Unlock()
	for _, server := range append(s.servers, s.frontServer) {
		if server != nil {
			_ = server.Close()
		}
	}
	s.recorder.close()
	if s.model != nil && s.model.Service != nil {
		s.model.Remove()
	}
	if s.dir != "" {
		_ = os.RemoveAll(s.dir)
	}
}

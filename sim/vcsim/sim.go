package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"

	"layercake.invalid/sim/vcsim/access"
	"layercake.invalid/sim/vcsim/backup"
	"layercake.invalid/sim/vcsim/compute"
	"layercake.invalid/sim/vcsim/control"
	"layercake.invalid/sim/vcsim/core"
	"layercake.invalid/sim/vcsim/inventory"
	"layercake.invalid/sim/vcsim/library"
	"layercake.invalid/sim/vcsim/outage"
	"layercake.invalid/sim/vcsim/policy"
	"layercake.invalid/sim/vcsim/properties"
	"layercake.invalid/sim/vcsim/spec"
	"layercake.invalid/sim/vcsim/storage"
	"layercake.invalid/sim/vcsim/traffic"
	"layercake.invalid/sim/vcsim/wire"
)

// Sim is one simulated vCenter with its listeners.
type Sim struct {
	*core.VCenter
	storage    *storage.Storage
	outages    *outage.Outages
	privileges *access.Privileges
	inventory  *inventory.Inventory
	compute    *compute.Compute
	properties *properties.Properties
	policy     *policy.Policies
	wire       *wire.Server
	library    *library.Libraries
	backups    *backup.Backups
	api        *control.API

	recorder      *traffic.Recorder
	listener      net.Listener
	control       net.Listener
	controlServer *http.Server
}

// Ready is the one line that tells a parent where everything is.
type Ready struct {
	URL     string `json:"url"`
	Control string `json:"control"`
	spec.Found
}

// Start builds the inventory, imports the libraries and listens.
func Start(o spec.Options) (*Sim, error) {
	certificate, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("server certificate: %w", err)
	}
	s := assemble(core.New(o))
	if err := s.start(certificate); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// assemble creates the parts, each from the parts that it uses.
func assemble(vc *core.VCenter) *Sim {
	s := &Sim{VCenter: vc, storage: storage.New(vc), outages: outage.New(vc), privileges: access.New(vc), policy: policy.New(vc)}
	s.inventory = inventory.New(vc, s.storage, s.outages)
	s.compute = compute.New(vc, s.storage, s.inventory)
	s.properties = properties.New(vc, s.outages, s.inventory.Unreserved)
	s.wire = wire.New(vc, s.outages, s.privileges)
	s.library = library.New(vc, s.wire, s.inventory, s.compute, s.privileges)
	s.backups = backup.New(vc, s.wire, s.inventory, s.outages)
	s.api = control.New(vc, control.Parts{
		Storage: s.storage, Outages: s.outages, Privileges: s.privileges, Inventory: s.inventory, Compute: s.compute,
		Wire: s.wire, Library: s.library, Backups: s.backups,
	})
	return s
}

func (s *Sim) start(certificate tls.Certificate) error {
	ctx := context.Background()
	var err error
	if s.recorder, err = traffic.NewRecorder(s.recordFolder()); err != nil {
		return err
	}
	if s.listener, err = net.Listen("tcp", s.Options.Listen); err != nil {
		return err
	}
	if s.control, err = net.Listen("tcp", s.Options.ControlListen); err != nil {
		return err
	}
	if err := s.Create(s.listener.Addr().String()); err != nil {
		return err
	}
	if s.Found, err = inventory.Build(ctx, s.Service, s.Options.Spec, s.Dir, s.Options.LoadFolder != ""); err != nil {
		return err
	}
	if s.Options.LoadFolder != "" {
		s.Options.Spec.Datastores = slices.Sorted(maps.Keys(s.Found.Datastores))
	}
	s.Open(certificate)
	s.library.Connect()
	s.properties.Connect()
	s.takeOver()
	if err := s.policy.Connect(); err != nil {
		return err
	}
	s.serve(certificate)
	return s.library.Import()
}

// takeOver puts ours in place of what the library does otherwise than vCenter.
func (s *Sim) takeOver() {
	for _, methods := range []map[string]core.Override{
		s.Methods(), s.storage.Methods(), s.outages.Methods(), s.inventory.Methods(), s.compute.Methods(), s.properties.Methods(), s.privileges.Methods(),
	} {
		s.Replace(methods)
	}
	s.OnCall, s.OfAnother = s.wire.Dispatch, s.policy.Invoke
	if s.Options.GuestDelay.IsSet {
		s.Hub.OnBoot = s.compute.BootGuest
	}
}

// routes tells the wires apart.
func (s *Sim) routes() http.Handler {
	mux := http.NewServeMux()
	s.wire.RouteSOAP(mux)
	s.wire.RouteVIJSON(mux)
	s.wire.RouteSessions(mux)
	s.library.RouteREST(mux)
	mux.HandleFunc("POST /pbm", s.policy.Serve)
	mux.Handle("/", s.Service.ServeMux)
	return s.recorder.Recorded(s.named(s.Counters.Metered(policy.AsPolicies(mux))))
}

// named has the answers contain the name by which clients reach the simulator, if it has one.
func (s *Sim) named(next http.Handler) http.Handler {
	if s.Options.Name == "" {
		return next
	}
	_, port, _ := net.SplitHostPort(s.Address)
	return traffic.Named(s.Address, net.JoinHostPort(s.Options.Name, port), next)
}

func (s *Sim) serve(certificate tls.Certificate) {
	s.wire.Listen(s.listener, certificate, s.routes())
	s.controlServer = wire.Serve(s.control, s.api.Handler())
}

// Ready tells where the simulator listens and what its inventory is.
func (s *Sim) Ready() Ready {
	return Ready{URL: s.URL().String(), Control: "http://" + s.control.Addr().String(), Found: s.Found}
}

// Close ends all connections at once and removes the files.
func (s *Sim) Close() {
	close(s.Done)
	for _, l := range []net.Listener{s.listener, s.control} {
		if l != nil {
			_ = l.Close()
		}
	}
	if s.controlServer != nil {
		s.wire.Close()
		_ = s.controlServer.Close()
	}
	s.recorder.Close()
	s.Remove()
}

// recordFolder is where exchanges are written. Those about a member that the published types do not have are not: they are compared
// with these types.
func (s *Sim) recordFolder() string {
	if !s.Options.Spec.HasPublishedMembers() {
		return ""
	}
	return s.Options.RecordFolder
}

package main

import (
	"crypto/subtle"
	"crypto/tls"
	"maps"
	"net/url"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/types"
)

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

// open connects the library to the world outside: who may log in, where it is reached, what it serves. Whoever makes the
// inventory comes before.
func (s *Sim) open(certificate tls.Certificate) {
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

	s.hub = newHub(s.registry)
	s.machines = newMachines(s.svc, s.hub, s.done)
	s.connect()
	go s.reapEverySecond()
}

// validLogin compares in constant time; the library's own user is known to nobody outside.
func (s *Sim) validLogin(login *types.Login) bool {
	same := func(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
	outer := same(login.UserName, s.options.Credentials.Username) && same(login.Password, s.options.Credentials.Password)
	return outer || same(login.UserName, s.inner.UserName) && same(login.Password, s.inner.Password)
}

func (s *Sim) url() *url.URL {
	return &url.URL{Scheme: "https", Host: s.address, Path: vim25.Path}
}

// replace puts ours in place of methods of the library's.
func (s *Sim) replace(methods map[string]override) { maps.Copy(s.overrides, methods) }

func (s *Sim) removeModel() {
	if s.model != nil && s.model.Service != nil {
		s.model.Remove()
	}
}

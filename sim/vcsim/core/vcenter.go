// Package core is what all parts of a simulated vCenter share: objects, calls, tasks, sessions and the clock.
package core

import (
	"crypto/rand"
	"crypto/subtle"
	"crypto/tls"
	"maps"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/faults"
	"layercake.invalid/sim/vcsim/spec"
	"layercake.invalid/sim/vcsim/traffic"
	"layercake.invalid/sim/vcsim/vim"
)

// VCenter is what all parts of a simulated vCenter share: the objects, the calls of clients, tasks, sessions and the clock.
type VCenter struct {
	Options  spec.Options
	Service  *simulator.Service
	Registry *simulator.Registry
	Found    spec.Found    // the morefs of what the spec names
	Dir      string        // of all files
	Address  string        // of the endpoint
	Inner    types.Login   // how the library's own handlers log in
	Done     chan struct{} // closed when the simulator ends

	Hub      *Hub
	Machines *Machines
	Clock    Clock
	Counters traffic.Counters
	Journal  traffic.Journal
	Rules    faults.Rules // faults that calls meet

	OnCall    Override // receives every call
	OfAnother Override // carries out calls of the policies' service
	overrides map[string]Override

	model    *simulator.Model
	calls    calls
	watchers watchers
	first    sync.Mutex // see target
}

// New gives a vCenter that must be created before it is used.
func New(o spec.Options) *VCenter {
	return &VCenter{
		Options: o, Inner: types.Login{UserName: "vcsim-inner", Password: rand.Text()}, Done: make(chan struct{}),
		overrides: map[string]Override{},
	}
}

// Create makes a vCenter without any content, which is reached at the address.
func (vc *VCenter) Create(address string) (err error) {
	vc.Address = address
	if vc.Dir, err = os.MkdirTemp("", "layercake-vcsim-"); err != nil {
		return err
	}
	vc.model = simulator.VPX()
	vc.model.Datacenter = 0
	create := vc.model.Create
	if folder := vc.Options.LoadFolder; folder != "" {
		create = func() error { return load(vc.model, folder) }
	}
	if err := create(); err != nil {
		return err
	}
	vc.Service = vc.model.Service
	vc.Registry = vc.Service.Context.Map

	instance := vc.Registry.Get(vim25.ServiceInstance).(*simulator.ServiceInstance)
	about := &instance.Content.About
	about.ApiVersion = vc.Options.Spec.APIRelease
	about.Version = "8.0.3"
	about.Build = "24022515"
	about.FullName = "VMware vCenter Server 8.0.3 build-24022515 (simulated)"
	about.InstanceUuid = vim.NewUUID()

	options := vc.Registry.OptionManager()
	options.Setting = append(options.Setting,
		&types.OptionValue{Key: "config.vmacore.soap.sessionTimeout", Value: (2 * time.Hour).String()},
		&types.OptionValue{Key: "vcsim.server.url", Value: vc.URL().String()})
	return nil
}

// Open connects the library to the outside: logins, addresses and services. Build the inventory first.
func (vc *VCenter) Open(certificate tls.Certificate) {
	vc.Service.Listen = vc.URL()
	vc.Service.Listen.User = url.UserPassword(vc.Options.Credentials.Username, vc.Options.Credentials.Password)
	sessions := vc.Registry.SessionManager()
	sessions.ServiceHostName = vc.URL().Host
	sessions.ValidLogin = vc.validLogin
	config := &tls.Config{Certificates: []tls.Certificate{certificate}}
	sessions.TLS = func() *tls.Config { return config }

	vc.Service.RegisterSDK(vc.Registry, vim25.Path+"/vimService", traffic.InnerPath)
	mux := vc.Service.ServeMux
	mux.HandleFunc(vim25.Path+"/vimServiceVersions.xml", vc.Service.ServiceVersions)
	mux.HandleFunc("/folder/", vc.Service.ServeDatastore)
	mux.HandleFunc("/nfc/", simulator.ServeNFC)

	vc.Hub = newHub(vc.Registry)
	vc.Machines = newMachines(vc.Service, vc.Hub, vc.Done)
	vc.connect()
	go vc.reapEverySecond()
}

// validLogin compares in constant time; the library's own user is known to nobody outside.
func (vc *VCenter) validLogin(login *types.Login) bool {
	same := func(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
	outer := same(login.UserName, vc.Options.Credentials.Username) && same(login.Password, vc.Options.Credentials.Password)
	return outer || same(login.UserName, vc.Inner.UserName) && same(login.Password, vc.Inner.Password)
}

// URL is that of the SDK.
func (vc *VCenter) URL() *url.URL {
	return &url.URL{Scheme: "https", Host: vc.Address, Path: vim25.Path}
}

// Replace puts ours in place of methods of the library's.
func (vc *VCenter) Replace(methods map[string]Override) { maps.Copy(vc.overrides, methods) }

// Remove takes all objects and files away.
func (vc *VCenter) Remove() {
	if vc.model != nil && vc.model.Service != nil {
		vc.model.Remove()
	}
	if vc.Dir != "" {
		_ = os.RemoveAll(vc.Dir)
	}
}

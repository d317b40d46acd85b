package main

import (
	"testing"

	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/vim"
)

// outage is how a client sees a VM.
func (s *site) outage(vijson bool, vm vim.Ref) mo.VirtualMachine {
	s.t.Helper()
	c := s.login(vijson)
	var seen mo.VirtualMachine
	must(s.t, property.DefaultCollector(c.Client).RetrieveOne(s.ctx, vm, []string{"name", "config", "config.uuid", "runtime", "summary", "guest"}, &seen))
	return seen
}

// A VM whose files cannot be read has no configuration; one on a host that is away keeps what vCenter knows of it.
func TestVMsAreOutOfReach(t *testing.T) {
	for _, vijson := range []bool{false, true} {
		s := newSite(t)
		c := s.login(vijson)
		made := s.create(c, "a")
		vm := made.Reference()
		host := s.outage(vijson, vm).Runtime.Host.Value
		look := func(state types.VirtualMachineConnectionState, configured bool) {
			t.Helper()
			seen := s.outage(vijson, vm)
			if seen.Runtime.ConnectionState != state || (seen.Config != nil) != configured || seen.Name != "a" ||
				(seen.Summary.Config.Uuid != "") != configured || seen.Summary.Config.Name != "a" {
				t.Errorf("%s: %+v, config %v, summary %+v", state, seen.Runtime.ConnectionState, seen.Config != nil, seen.Summary.Config)
			}
		}
		look("connected", true)
		s.open("PUT", "/v1/datastores/ds0/outage", map[string]any{"accessible": false}, nil)
		look("inaccessible", false)
		failsWith[*types.InvalidState](t, s.ended(made.PowerOn(s.ctx)))
		failsWith[*types.InvalidState](t, s.ended(made.Destroy(s.ctx)))
		s.open("PUT", "/v1/datastores/ds0/outage", map[string]any{"accessible": true}, nil)
		look("connected", true)

		s.open("PUT", "/v1/hosts/"+host+"/outage", map[string]any{"state": "disconnected"}, nil)
		look("disconnected", true)
		failsWith[*types.HostNotConnected](t, s.ended(made.PowerOn(s.ctx)))
		if other := s.create(c, "b"); s.outage(vijson, other.Reference()).Runtime.Host.Value == host {
			t.Error("made on a host that is away")
		}
		s.open("DELETE", "/v1/outages", nil, nil)
		look("connected", true)

		s.open("PUT", "/v1/vms/"+vm.Value+"/outage", map[string]any{"state": "orphaned", "config": "unset"}, nil)
		look("orphaned", false)
		s.open("PUT", "/v1/vms/"+vm.Value+"/outage", map[string]any{"state": "connected"}, nil)
		look("connected", true)
		s.done(made.PowerOn(s.ctx))
	}
}

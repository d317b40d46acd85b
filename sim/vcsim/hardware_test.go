package main

import (
	"testing"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vapi/library"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/control"
	"layercake.invalid/sim/vcsim/core"
	"layercake.invalid/sim/vcsim/spec"
	"layercake.invalid/sim/vcsim/vim"
)

func TestAVMsHardwareIsThatOfItsImage(t *testing.T) {
	s := newSite(t)
	c := s.login(true)
	r := s.automation()
	items, err := library.NewManager(r).GetLibraryItems(s.ctx, s.Found.Libraries["layercake"])
	must(t, err)
	vms := []vim.Ref{s.deploy(r, items[0].ID, "golden")}
	for _, name := range []string{"a", "b"} {
		vm, err := s.clone(c, object.NewVirtualMachine(c.Client, vms[len(vms)-1]), name, types.VirtualMachineCloneSpec{
			Location: types.VirtualMachineRelocateSpec{Pool: s.pool()},
		})
		must(t, err)
		vms = append(vms, vm)
	}
	for _, vm := range vms {
		var found control.Hardware
		s.open("GET", "/v1/vms/"+vm.Value+"/hardware", nil, &found)
		if found.Image != "ob-1" || found.NumCPUs != 2 || found.MemoryMB != 2048 {
			t.Errorf("%s: %+v", vm.Value, found)
		}
		if len(found.Disks) != 1 || found.Disks[0].UUID == "" || len(found.NICs) != 1 || found.NICs[0].MAC == "" {
			t.Errorf("%s: %+v", vm.Value, found)
		}
	}
	var made control.Hardware
	s.open("GET", "/v1/vms/"+s.create(c, "c").Reference().Value+"/hardware", nil, &made)
	if made.Image != "" {
		t.Errorf("a VM of no image is one of %q", made.Image)
	}
}

func TestARealGuestShutsDownByItself(t *testing.T) {
	for _, real := range []bool{false, true} {
		s := newSite(t, func(o *spec.Options) { o.RealGuests = real })
		c := s.login(true)
		vm := s.create(c, "a")
		s.done(vm.PowerOn(s.ctx))
		id := vm.Reference().Value
		s.open("PUT", "/v1/vms/"+id+"/guest", map[string]any{"ip": "10.1.2.3", "toolsRunning": true}, nil)
		must(t, vm.ShutdownGuest(s.ctx))
		state := s.props(c, vm.Reference()).Runtime.PowerState
		if on := state == types.VirtualMachinePowerStatePoweredOn; on != real {
			t.Errorf("real %v: the VM is %s", real, state)
		}
		var list struct{ VMs []core.Machine }
		s.eventually("the request is seen", func() bool {
			s.open("GET", "/v1/vms", nil, &list)
			asked := 0
			if real {
				asked = 1
			}
			return len(list.VMs) == 1 && list.VMs[0].ShutdownCount == asked
		})
	}
}

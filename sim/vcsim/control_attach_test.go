package main

import (
	"net/http"
	"slices"
	"testing"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/control"
	"layercake.invalid/sim/vcsim/vim"
)

// A disk of somebody else's outlives a VM that it was taken off, and goes with one that it is attached to, as in vCenter.
func TestADiskIsHungOnAVMBehindTheClientsBack(t *testing.T) {
	s := newSite(t)
	c := s.login(true)
	orphans := func() []string {
		var answer struct{ Files []string }
		s.open("GET", "/v1/orphans", nil, &answer)
		return answer.Files
	}
	const file = "[ds0] theirs/data.vmdk"
	for _, taken := range []bool{true, false} {
		made := s.create(c, "a")
		vm := made.Reference().Value
		var first, again struct{ UUID string }
		order := map[string]any{"file": file, "capacityMiB": 64}
		s.open("POST", "/v1/vms/"+vm+"/disks", order, &first)
		s.open("POST", "/v1/vms/"+vm+"/disks", order, &again)
		if first.UUID == "" || again != first {
			t.Errorf("attached as %q, then as %q", first.UUID, again.UUID)
		}
		disks := s.inventory().VMs[0].Disks
		if !slices.Contains(disks, control.DiskSeen{File: file, CapacityMiB: 64}) || len(orphans()) != 0 {
			t.Errorf("disks %v, orphans %v", disks, orphans())
		}
		if taken {
			s.takeOff(made, file)
		}
		s.open("POST", "/v1/vms/"+vm+"/power", map[string]any{"action": "destroy"}, nil)
		if left := orphans(); slices.Contains(left, "ds0/theirs") != taken {
			t.Errorf("taken off %v: left %v", taken, left)
		}
		s.open("DELETE", "/v1/orphans", nil, nil)
		if left := orphans(); len(left) != 0 {
			t.Errorf("left %v", left)
		}
	}
	vm := s.create(c, "b").Reference().Value
	s.answers(http.StatusBadRequest, "POST", "/v1/vms/"+vm+"/disks", map[string]any{"file": "../x"}, nil)
}

// takeOff is what a client does that spares a disk.
func (s *site) takeOff(vm *object.VirtualMachine, file string) {
	s.t.Helper()
	devices, err := vm.Device(s.ctx)
	must(s.t, err)
	disks := devices.SelectByBackingInfo(&types.VirtualDiskFlatVer2BackingInfo{
		VirtualDeviceFileBackingInfo: types.VirtualDeviceFileBackingInfo{FileName: file},
	})
	must(s.t, vm.RemoveDevice(s.ctx, true, disks...))
}

// Tokens are remembered when their sessions are gone.
func TestTheControlAPIKnowsEveryToken(t *testing.T) {
	s := newSite(t)
	token := s.token()
	s.open("POST", "/v1/sessions/expire", nil, nil)
	var answer struct{ Tokens []string }
	s.open("GET", "/v1/sessions", nil, &answer)
	if !slices.Contains(answer.Tokens, token) {
		t.Errorf("%d tokens, without ours", len(answer.Tokens))
	}
}

// A disk in the place of another is there, and the other is gone with its file.
func TestADiskIsHungIntoTheLastOnesPlace(t *testing.T) {
	s := newSite(t)
	c := s.login(false)
	vm := s.create(c, "a").Reference().Value
	swap := map[string]any{"file": "[ds0] theirs/b.vmdk", "capacityMiB": 64, "inPlaceOf": "last"}
	s.answers(http.StatusConflict, "POST", "/v1/vms/"+vm+"/disks", swap, nil) // its only disk stays
	s.open("POST", "/v1/vms/"+vm+"/disks", map[string]any{"file": "[ds0] theirs/a.vmdk", "capacityMiB": 64}, nil)
	place := func() (int32, int32) {
		made, _ := s.VMOf(s.Fresh(), vm)
		disks := object.VirtualDeviceList(vim.VMConfig(s.Fresh(), made).Hardware.Device).SelectByType((*types.VirtualDisk)(nil))
		last := disks[len(disks)-1].GetVirtualDevice()
		return last.ControllerKey, *last.UnitNumber
	}
	controller, unit := place()
	s.open("POST", "/v1/vms/"+vm+"/disks", swap, nil)
	if c, u := place(); c != controller || u != unit {
		t.Errorf("it hangs at %d:%d instead of %d:%d", c, u, controller, unit)
	}
	if seen := s.inventory().VMs[0]; len(seen.Disks) != 2 || seen.Disks[1].File != "[ds0] theirs/b.vmdk" || seen.Broken {
		t.Errorf("disks %v, broken %v", seen.Disks, seen.Broken)
	}
}

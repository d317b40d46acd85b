package main

import (
	"net/http"
	"testing"

	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/storage"
)

func TestAFirstClassDiskHangsOnAVMAndDiesWithItOnlyIfNobodyTakesItOff(t *testing.T) {
	s := newSite(t)
	c := s.login(false)
	vm, other := s.create(c, "one"), s.create(c, "two")
	var made struct{ ID string }
	s.open("POST", "/v1/disks", map[string]any{"name": "data", "capacityMiB": 64}, &made)
	attach := func(vm, id string, status int) (uuid string) {
		t.Helper()
		var answer struct{ DiskUUID string }
		if got := s.open("PUT", "/v1/vms/"+vm+"/disks/"+id, nil, &answer); got != status {
			t.Errorf("attached to %s: %d", vm, got)
		}
		return answer.DiskUUID
	}
	first, second := vm.Reference().Value, other.Reference().Value
	uuid := attach(first, made.ID, http.StatusOK)
	if uuid == "" || attach(first, made.ID, http.StatusOK) != uuid {
		t.Errorf("attached twice as %q", uuid)
	}
	attach(second, made.ID, http.StatusConflict)
	if disks := devicesOf(s.props(c, vm.Reference())); disks != 2 {
		t.Errorf("%d disks", disks)
	}
	s.look(made.ID, storage.FirstClass{Exists: true, VM: first, DiskUUID: uuid})
	if got := s.open("DELETE", "/v1/disks/"+made.ID, nil, nil); got != http.StatusConflict {
		t.Errorf("deleted while it is attached to a VM: %d", got)
	}

	for range 2 {
		if got := s.open("DELETE", "/v1/vms/"+first+"/disks/"+made.ID, nil, nil); got != http.StatusNoContent {
			t.Errorf("detached: %d", got)
		}
	}
	s.look(made.ID, storage.FirstClass{Exists: true})
	uuid = attach(second, made.ID, http.StatusOK)
	s.look(made.ID, storage.FirstClass{Exists: true, VM: second, DiskUUID: uuid})

	task, err := other.Destroy(s.ctx)
	must(t, err)
	must(t, task.Wait(s.ctx))
	s.look(made.ID, storage.FirstClass{})
	if got := s.open("DELETE", "/v1/disks/"+made.ID, nil, nil); got != http.StatusNoContent {
		t.Errorf("deleted: %d", got)
	}
	if disks := s.storage.FirstClassDisks(s.Fresh()); len(disks) != 0 {
		t.Errorf("left: %+v", disks)
	}
}

// look compares what the control API lists of a disk.
func (s *site) look(id string, want storage.FirstClass) {
	s.t.Helper()
	var list struct{ Disks []storage.FirstClass }
	s.open("GET", "/v1/disks", nil, &list)
	want.ID, want.Name, want.CapacityMiB = id, "data", 64
	if len(list.Disks) != 1 || list.Disks[0] != want {
		s.t.Errorf("disks: %+v, want %+v", list.Disks, want)
	}
}

func devicesOf(vm mo.VirtualMachine) (disks int) {
	for _, device := range vm.Config.Hardware.Device {
		if _, ok := device.(*types.VirtualDisk); ok {
			disks++
		}
	}
	return disks
}

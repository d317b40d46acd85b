package main

import (
	"net/http"
	"testing"

	"github.com/vmware/govmomi/object"
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
		s.answers(status, "PUT", "/v1/vms/"+vm+"/disks/"+id, nil, &answer)
		return answer.DiskUUID
	}
	first, second := vm.Reference().Value, other.Reference().Value
	uuid := attach(first, made.ID, http.StatusOK)
	if uuid == "" || attach(first, made.ID, http.StatusOK) != uuid {
		t.Errorf("attached twice as %q", uuid)
	}
	attach(second, made.ID, http.StatusConflict)
	devices := object.VirtualDeviceList(s.props(c, vm.Reference()).Config.Hardware.Device)
	if disks := devices.SelectByType((*types.VirtualDisk)(nil)); len(disks) != 2 {
		t.Errorf("%d disks", len(disks))
	}
	s.look(made.ID, storage.FirstClass{Exists: true, VM: first, DiskUUID: uuid})
	// It is attached to a VM.
	s.answers(http.StatusConflict, "DELETE", "/v1/disks/"+made.ID, nil, nil)

	for range 2 {
		s.answers(http.StatusNoContent, "DELETE", "/v1/vms/"+first+"/disks/"+made.ID, nil, nil)
	}
	s.look(made.ID, storage.FirstClass{Exists: true})
	uuid = attach(second, made.ID, http.StatusOK)
	s.look(made.ID, storage.FirstClass{Exists: true, VM: second, DiskUUID: uuid})

	s.done(other.Destroy(s.ctx))
	s.look(made.ID, storage.FirstClass{})
	s.answers(http.StatusNoContent, "DELETE", "/v1/disks/"+made.ID, nil, nil)
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

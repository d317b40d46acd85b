package main

import (
	"testing"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"
)

func TestAVMWhoseDisksArePromotedRestsOnNothing(t *testing.T) {
	s := newSite(t)
	c := s.login(false)
	golden, snapshot := s.golden(c)
	made, err := s.clone(c, golden, "x", s.linked(snapshot))
	must(t, err)
	vm := object.NewVirtualMachine(c.Client, made)
	disk := func() types.VirtualDisk {
		t.Helper()
		devices, err := vm.Device(s.ctx)
		must(t, err)
		return *devices.SelectByType((*types.VirtualDisk)(nil))[0].(*types.VirtualDisk)
	}
	promote := func(disks ...types.VirtualDisk) error {
		t.Helper()
		return s.ended(vm.PromoteDisks(s.ctx, true, disks))
	}
	before, version := disk(), s.props(c, made).Config.ChangeVersion
	failsWith[*types.InvalidArgument](t, promote(types.VirtualDisk{VirtualDevice: types.VirtualDevice{Key: 4711}}))
	must(t, promote(before))
	if backing := disk().Backing.(*types.VirtualDiskFlatVer2BackingInfo); backing.Parent != nil {
		t.Errorf("the disk rests on %s", backing.Parent.FileName)
	}
	if s.props(c, made).Config.ChangeVersion == version {
		t.Error("the settings are reported as before")
	}
	must(t, promote())
	s.done(golden.Destroy(s.ctx))
}

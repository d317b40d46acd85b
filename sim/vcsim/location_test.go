package main

import (
	"fmt"
	"testing"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/vim"
)

// Of the changes in a clone's location vCenter takes an adapter's backing and a disk's profile, and nothing else.
func TestALocationIsHeededForBackingsAndProfilesOnly(t *testing.T) {
	s := newSite(t)
	c := s.login(false)
	golden, snapshot := s.golden(c)
	changes := func(operation types.VirtualDeviceConfigSpecOperation, device types.BaseVirtualDevice, profile ...string) []types.BaseVirtualDeviceConfigSpec {
		change := &types.VirtualDeviceConfigSpec{Operation: operation, Device: device}
		if _, ok := device.(*types.VirtualDisk); ok && operation == types.VirtualDeviceConfigSpecOperationAdd {
			change.FileOperation = types.VirtualDeviceConfigSpecFileOperationCreate
		}
		for _, id := range profile {
			change.Profile = append(change.Profile, &types.VirtualMachineDefinedProfileSpec{ProfileId: id})
		}
		return []types.BaseVirtualDeviceConfigSpec{change}
	}
	first := func(kind types.BaseVirtualDevice) types.BaseVirtualDevice {
		devices, err := golden.Device(s.ctx)
		must(t, err)
		return devices.SelectByType(kind)[0]
	}
	number := 0
	clone := func(edit func(*types.VirtualMachineCloneSpec)) (vim.Ref, error) {
		number++
		return s.clone(c, golden, fmt.Sprint("clone-", number), s.linked(snapshot, edit))
	}
	count := func(vm vim.Ref) string {
		devices := object.VirtualDeviceList(s.props(c, vm).Config.Hardware.Device)
		return fmt.Sprint(len(devices.SelectByType((*types.VirtualEthernetCard)(nil))), len(devices.SelectByType((*types.VirtualDisk)(nil))))
	}
	const add, remove, edit = types.VirtualDeviceConfigSpecOperationAdd, types.VirtualDeviceConfigSpecOperationRemove, types.VirtualDeviceConfigSpecOperationEdit
	newDisk := func() types.BaseVirtualDevice {
		disk := first((*types.VirtualDisk)(nil)).(*types.VirtualDisk)
		unit := int32(3)
		disk.Key, disk.UnitNumber = -1, &unit
		disk.Backing = &types.VirtualDiskFlatVer2BackingInfo{DiskMode: "persistent"}
		return disk
	}
	newAdapter := func() types.BaseVirtualDevice {
		adapter := s.adapter(c, golden)
		adapter.GetVirtualDevice().Key, adapter.GetVirtualDevice().UnitNumber = -100, nil
		return adapter
	}
	for name, ignored := range map[string][]types.BaseVirtualDeviceConfigSpec{
		"a new disk": changes(add, newDisk()), "a new adapter": changes(add, newAdapter()),
		"a removal": changes(remove, first((*types.VirtualEthernetCard)(nil))),
	} {
		vm, err := clone(func(spec *types.VirtualMachineCloneSpec) { spec.Location.DeviceChange = ignored })
		must(t, err)
		if got := count(vm); got != "1 1" {
			t.Errorf("%s in the location: the clone has %s adapters and disks", name, got)
		}
	}
	for name, more := range map[string]func(*types.VirtualEthernetCard){
		"a MAC":             func(e *types.VirtualEthernetCard) { e.AddressType, e.MacAddress = "manual", "00:50:56:12:34:56" },
		"the provider's id": func(e *types.VirtualEthernetCard) { e.ExternalId = "port-1" },
		"how it connects":   func(e *types.VirtualEthernetCard) { e.Connectable = &types.VirtualDeviceConnectInfo{Connected: true} },
	} {
		_, err := clone(func(spec *types.VirtualMachineCloneSpec) {
			adapter := s.adapter(c, golden)
			more(adapter.(types.BaseVirtualEthernetCard).GetVirtualEthernetCard())
			spec.Location.DeviceChange = changes(edit, adapter)
		})
		if err == nil {
			t.Errorf("%s was changed by a location", name)
			continue
		}
		failsWith[*types.InvalidDeviceSpec](t, err)
	}
	// The settings' changes are carried out, whatever they are; what an edit leaves out stays.
	vm, err := clone(func(spec *types.VirtualMachineCloneSpec) {
		kind := first((*types.VirtualEthernetCard)(nil))
		adapter := &types.VirtualVmxnet3{}
		if e1000, ok := kind.(*types.VirtualE1000); ok {
			t.Fatalf("%+v", e1000)
		}
		adapter.Key, adapter.AddressType, adapter.MacAddress = kind.GetVirtualDevice().Key, "manual", "00:50:56:12:34:56"
		spec.Location.Profile = []types.BaseVirtualMachineProfileSpec{&types.VirtualMachineDefinedProfileSpec{ProfileId: "home"}}
		spec.Location.DeviceChange = changes(edit, s.adapter(c, golden))
		spec.Config.DeviceChange = append(changes(edit, adapter), changes(add, newDisk(), "data")...)
		disk := first((*types.VirtualDisk)(nil)).GetVirtualDevice().Key
		datastore := vim.Ref{Type: "Datastore", Value: s.Found.Datastores["ds0"]}
		spec.Location.Datastore = &datastore
		spec.Location.Disk = []types.VirtualMachineRelocateSpecDiskLocator{{
			DiskId: disk, Datastore: datastore, DiskMoveType: spec.Location.DiskMoveType,
			Profile: []types.BaseVirtualMachineProfileSpec{&types.VirtualMachineDefinedProfileSpec{ProfileId: "boot"}},
		}}
	})
	must(t, err)
	if got := count(vm); got != "1 2" {
		t.Errorf("the clone has %s adapters and disks", got)
	}
	devices := object.VirtualDeviceList(s.props(c, vm).Config.Hardware.Device)
	adapter := devices.SelectByType((*types.VirtualEthernetCard)(nil))[0].(types.BaseVirtualEthernetCard).GetVirtualEthernetCard()
	if _, ok := adapter.Backing.(*types.VirtualEthernetCardDistributedVirtualPortBackingInfo); !ok || adapter.MacAddress != "00:50:56:12:34:56" || adapter.UnitNumber == nil {
		t.Errorf("%+v", adapter)
	}
	if home, disks := s.Machines.ProfilesOf(vm).Home, s.compute.DiskProfiles(vm); fmt.Sprint(home, disks) != "[home] [[boot] [data]]" {
		t.Errorf("home %v, disks %v", home, disks)
	}
}

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vapi/library"
	"github.com/vmware/govmomi/vapi/vcenter"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/spec"
	"layercake.invalid/sim/vcsim/vim"
)

func reservation(mib int64) *types.ResourceAllocationInfo {
	return &types.ResourceAllocationInfo{Reservation: &mib}
}

func disksOf(vm mo.VirtualMachine) []*types.VirtualDisk { return vim.Disks(vm.Config.Hardware.Device) }

func edit(disk *types.VirtualDisk, kib int64) []types.BaseVirtualDeviceConfigSpec {
	changed := *disk
	changed.CapacityInKB, changed.CapacityInBytes = kib, kib<<10
	return []types.BaseVirtualDeviceConfigSpec{&types.VirtualDeviceConfigSpec{
		Operation: types.VirtualDeviceConfigSpecOperationEdit, Device: &changed,
	}}
}

func TestSizesThatNoVMCanHaveAreRefused(t *testing.T) {
	s := newSite(t)
	c := s.login(false)
	golden, snapshot := s.golden(c)
	vm := s.create(c, "vm")
	limit := int64(512)
	for name, settings := range map[string]types.VirtualMachineConfigSpec{
		"memory of no step":          {MemoryMB: 1027},
		"little memory":              {MemoryMB: 3},
		"negative memory":            {MemoryMB: -4},
		"cores that do not divide":   {NumCPUs: 5, NumCoresPerSocket: types.NewInt32(2)},
		"a limit below what is kept": {MemoryAllocation: &types.ResourceAllocationInfo{Reservation: types.NewInt64(1024), Limit: &limit}},
		"a firmware":                 {Firmware: "uefi"},
		"a UUID":                     {Uuid: "zz"},
	} {
		err := s.ended(vm.Reconfigure(s.ctx, settings))
		if err == nil {
			t.Errorf("%s: accepted by a reconfiguration", name)
			continue
		}
		failsWith[*types.InvalidArgument](t, err)
		_, err = s.clone(c, golden, "clone", s.linked(snapshot, func(spec *types.VirtualMachineCloneSpec) { spec.Config = &settings }))
		if err == nil {
			t.Errorf("%s: accepted by a clone", name)
			continue
		}
		failsWith[*types.InvalidArgument](t, err)
	}
	s.done(vm.Reconfigure(s.ctx, types.VirtualMachineConfigSpec{MemoryMB: 1028, NumCPUs: 4, NumCoresPerSocket: types.NewInt32(2)}))
}

func TestAVMIsPoweredOnOnlyWithinItsMemoryAndTheHostsThreads(t *testing.T) {
	s := newSite(t)
	c := s.login(false)
	reserves, many := s.create(c, "reserves"), s.create(c, "many")
	s.done(reserves.Reconfigure(s.ctx, types.VirtualMachineConfigSpec{MemoryAllocation: reservation(4096)}))
	failsWith[*types.InvalidVmConfig](t, s.ended(reserves.PowerOn(s.ctx)))
	s.done(reserves.Reconfigure(s.ctx, types.VirtualMachineConfigSpec{MemoryMB: 4096}))
	s.done(reserves.PowerOn(s.ctx))

	s.done(many.Reconfigure(s.ctx, types.VirtualMachineConfigSpec{NumCPUs: 200}))
	if fault := failsWith[*types.NumVirtualCpusExceedsLimit](t, s.ended(many.PowerOn(s.ctx))); fault.MaxSupportedVcpus != 64 {
		t.Errorf("%+v", fault)
	}
}

func TestADiskThatASnapshotContainsNeitherGrowsNorGoes(t *testing.T) {
	s := newSite(t)
	c := s.login(false)
	golden, _ := s.golden(c)
	disk := disksOf(s.props(c, golden.Reference()))[0]
	failsWith[*types.InvalidDeviceOperation](t, s.ended(golden.Reconfigure(s.ctx, types.VirtualMachineConfigSpec{DeviceChange: edit(disk, 2<<20)})))
	failsWith[*types.InvalidState](t, golden.RemoveDevice(s.ctx, true, disk))
	large := s.create(c, "large")
	disk = disksOf(s.props(c, large.Reference()))[0]
	failsWith[*types.InvalidDeviceSpec](t, s.ended(large.Reconfigure(s.ctx, types.VirtualMachineConfigSpec{DeviceChange: edit(disk, 63<<30)})))
}

func TestACloneWhoseDiskIsEditedHasAFileOfItsOwn(t *testing.T) {
	s := newSite(t)
	c := s.login(false)
	golden := s.create(c, "golden")
	disk := disksOf(s.props(c, golden.Reference()))[0]
	made, err := s.clone(c, golden, "grown", types.VirtualMachineCloneSpec{
		Location: types.VirtualMachineRelocateSpec{Pool: s.pool()},
		Config:   &types.VirtualMachineConfigSpec{DeviceChange: edit(disk, 2<<20)},
	})
	must(t, err)
	grown := disksOf(s.props(c, made))[0]
	if file := grown.Backing.(*types.VirtualDiskFlatVer2BackingInfo).FileName; !strings.HasPrefix(file, "[ds0] grown/") || grown.CapacityInKB != 2<<20 {
		t.Errorf("%s of %d KiB", file, grown.CapacityInKB)
	}
	s.done(object.NewVirtualMachine(c.Client, made).Destroy(s.ctx))
	_, err = s.clone(c, golden, "after", types.VirtualMachineCloneSpec{Location: types.VirtualMachineRelocateSpec{Pool: s.pool()}})
	must(t, err)
	// Nor does an edit of a VM that exists give its disk another's file.
	other := s.create(c, "other")
	failsWith[*types.InvalidDeviceSpec](t, s.ended(other.Reconfigure(s.ctx, types.VirtualMachineConfigSpec{DeviceChange: edit(disk, 2<<20)})))
}

func TestDevicesHaveTheKeysOfVCenter(t *testing.T) {
	s := newSite(t)
	c := s.login(true)
	vm := s.create(c, "vm")
	devices := s.props(c, vm.Reference()).Config.Hardware.Device
	disk, adapter := vim.Disks(devices)[0], vim.Adapters(devices)[0]
	if disk.Key != 2000 || disk.ControllerKey != 1000 || adapter.Key != 4000 {
		t.Errorf("disk %d on %d, adapter %d", disk.Key, disk.ControllerKey, adapter.Key)
	}
	list := object.VirtualDeviceList(devices)
	controller, err := list.FindDiskController("")
	must(t, err)
	second := list.CreateDisk(controller, vim.Ref{}, "")
	second.CapacityInKB = 1 << 20
	must(t, vm.AddDevice(s.ctx, second))
	if disks := disksOf(s.props(c, vm.Reference())); len(disks) != 2 || disks[1].Key != 2001 {
		t.Errorf("%d disks, the last is %d", len(disks), disks[len(disks)-1].Key)
	}
}

func TestNamesAreThoseThatVCenterTakes(t *testing.T) {
	s := newSite(t)
	c := s.login(false)
	long := strings.Repeat("n", 81)
	pool := object.NewResourcePool(c.Client, *s.pool())
	vm := s.create(c, "vm")
	for _, name := range []string{long, " "} {
		_, err := s.folder(c).CreateFolder(s.ctx, name)
		failsWith[*types.InvalidName](t, err)
		_, err = pool.Create(s.ctx, name, types.DefaultResourceConfigSpec())
		failsWith[*types.InvalidName](t, err)
		failsWith[*types.InvalidName](t, s.ended(vm.Rename(s.ctx, name)))
		failsWith[*types.InvalidName](t, s.ended(vm.Reconfigure(s.ctx, types.VirtualMachineConfigSpec{Name: name})))
	}
	for _, written := range []string{"a/b", "a%2fb"} {
		folder, err := s.folder(c).CreateFolder(s.ctx, written)
		must(t, err)
		var made mo.Folder
		must(t, c.RetrieveOne(s.ctx, folder.Reference(), []string{"name"}, &made))
		if made.Name != "a%2fb" {
			t.Errorf("%s became %s", written, made.Name)
		}
		s.done(folder.Destroy(s.ctx))
	}
	root := object.NewRootFolder(c.Client)
	dc, err := root.CreateDatacenter(s.ctx, `10%/a\b`)
	must(t, err)
	var made mo.Datacenter
	must(t, c.RetrieveOne(s.ctx, dc.Reference(), []string{"name"}, &made))
	if made.Name != "10%25%2fa%5cb" {
		t.Errorf("the datacenter is called %s", made.Name)
	}
	_, err = root.CreateDatacenter(s.ctx, long)
	failsWith[*types.InvalidName](t, err)
	s.done(vm.Rename(s.ctx, "x/y"))
	if name := s.props(c, vm.Reference()).Name; name != "x%2fy" {
		t.Errorf("renamed to %s", name)
	}
}

func TestAPoolReservesWhatTheClusterHasAndSaysWhatIsLeft(t *testing.T) {
	s := newSite(t)
	c := s.login(false)
	pool := object.NewResourcePool(c.Client, *s.pool())
	config := types.DefaultResourceConfigSpec()
	config.MemoryAllocation.Reservation = types.NewInt64(8000 << 10)
	_, err := pool.Create(s.ctx, "greedy", config)
	failsWith[*types.InsufficientMemoryResourcesFault](t, err)

	unreserved := func() int64 {
		var found mo.ResourcePool
		must(t, c.RetrieveOne(s.ctx, pool.Reference(), []string{"runtime"}, &found))
		return found.Runtime.Memory.UnreservedForVm >> 20
	}
	before := unreserved()
	vm := s.create(c, "vm")
	s.done(vm.Reconfigure(s.ctx, types.VirtualMachineConfigSpec{MemoryAllocation: reservation(1024)}))
	s.done(vm.PowerOn(s.ctx))
	if after := unreserved(); before < 2048 || after != before-1024 {
		t.Errorf("%d MiB before, %d after", before, after)
	}
}

func TestOVFPropertiesHaveTypes(t *testing.T) {
	s := newSite(t)
	c := s.login(false)
	vm := s.create(c, "vm")
	yes, no := true, false
	property := func(key int32, id, kind string, configurable *bool) types.VAppPropertySpec {
		return types.VAppPropertySpec{
			ArrayUpdateSpec: types.ArrayUpdateSpec{Operation: types.ArrayUpdateOperationAdd},
			Info:            &types.VAppPropertyInfo{Key: key, Id: id, Type: kind, UserConfigurable: configurable},
		}
	}
	s.done(vm.Reconfigure(s.ctx, types.VirtualMachineConfigSpec{VAppConfig: &types.VmConfigSpec{Property: []types.VAppPropertySpec{
		property(0, "port", "int(0..65535)", &yes), property(1, "tls", "boolean", &yes),
		property(2, "tier", `string["gold","tin"]`, &yes), property(3, "pin", "string(4..)", &yes), property(4, "fixed", "string", &no),
	}}}))
	set := func(key int32, value string) error {
		info := s.props(c, vm.Reference()).Config.VAppConfig.GetVmConfigInfo().Property[key]
		info.Value = value
		return s.ended(vm.Reconfigure(s.ctx, types.VirtualMachineConfigSpec{VAppConfig: &types.VmConfigSpec{Property: []types.VAppPropertySpec{{
			ArrayUpdateSpec: types.ArrayUpdateSpec{Operation: types.ArrayUpdateOperationEdit}, Info: &info,
		}}}}))
	}
	for key, value := range []string{"99999", "maybe", "silver", "12"} {
		failsWith[*types.InvalidPropertyValue](t, set(int32(key), value))
	}
	failsWith[*types.NotUserConfigurableProperty](t, set(4, "changed"))
	for key, value := range []string{"9000", "True", "tin", "1234"} {
		must(t, set(int32(key), value))
	}
}

func TestAnItemWithoutItsDiskIsNotDeployed(t *testing.T) {
	s := newSite(t)
	r := s.automation()
	items, err := library.NewManager(r).GetLibraryItems(s.ctx, s.Found.Libraries["layercake"])
	must(t, err)
	disks, err := filepath.Glob(filepath.Join(s.Dir, "datastore-*", "contentlib-*", items[0].ID, "*.vmdk"))
	must(t, err)
	for _, disk := range disks {
		must(t, os.Remove(disk))
	}
	_, err = vcenter.NewManager(r).DeployLibraryItem(s.ctx, items[0].ID, vcenter.Deploy{
		DeploymentSpec: vcenter.DeploymentSpec{Name: "vm", AcceptAllEULA: true, DefaultDatastoreID: s.Found.Datastores["ds0"]},
		Target:         vcenter.Target{ResourcePoolID: s.Found.ResourcePool, FolderID: s.Found.Folder},
	})
	if len(disks) == 0 || err == nil {
		t.Errorf("%d disks, deployed: %v", len(disks), err)
	}
}

func TestVMsOfADisconnectedHostAreOutOfReach(t *testing.T) {
	s := newSite(t, func(o *spec.Options) { o.Spec.Hosts = 1 })
	c := s.login(false)
	vm := s.create(c, "vm")
	host := *s.props(c, vm.Reference()).Runtime.Host
	s.done(disconnect(s, c, host))
	if state := s.props(c, vm.Reference()).Runtime.ConnectionState; state != types.VirtualMachineConnectionStateDisconnected {
		t.Errorf("the VM is %s", state)
	}
	failsWith[*types.HostNotConnected](t, s.ended(vm.PowerOn(s.ctx)))
	failsWith[*types.HostNotConnected](t, s.ended(vm.Destroy(s.ctx)))
	res, err := methods.ReconnectHost_Task(s.ctx, c.Client, &types.ReconnectHost_Task{This: host})
	must(t, err)
	s.done(object.NewTask(c.Client, res.Returnval), nil)
	s.done(vm.PowerOn(s.ctx))
}

func disconnect(s *site, c *govmomi.Client, host vim.Ref) (*object.Task, error) {
	res, err := methods.DisconnectHost_Task(s.ctx, c.Client, &types.DisconnectHost_Task{This: host})
	if err != nil {
		return nil, err
	}
	return object.NewTask(c.Client, res.Returnval), nil
}

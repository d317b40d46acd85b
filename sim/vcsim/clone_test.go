package main

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/task"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/core"
	"layercake.invalid/sim/vcsim/spec"
	"layercake.invalid/sim/vcsim/vim"
)

// linked is the spec of a linked clone, to be edited.
func (s *site) linked(snapshot vim.Ref, edit ...func(*types.VirtualMachineCloneSpec)) types.VirtualMachineCloneSpec {
	spec := types.VirtualMachineCloneSpec{
		Snapshot: &snapshot,
		Location: types.VirtualMachineRelocateSpec{Pool: s.pool(), DiskMoveType: "createNewChildDiskBacking"},
		Config:   &types.VirtualMachineConfigSpec{},
	}
	for _, f := range edit {
		f(&spec)
	}
	return spec
}

func (s *site) clone(c *govmomi.Client, source *object.VirtualMachine, name string, spec types.VirtualMachineCloneSpec) (vim.Ref, error) {
	s.t.Helper()
	t, err := source.Clone(s.ctx, s.folder(c), name, spec)
	if err != nil {
		return vim.Ref{}, err
	}
	info, err := t.WaitForResult(s.ctx)
	if err != nil {
		return vim.Ref{}, err
	}
	return info.Result.(vim.Ref), nil
}

func (s *site) props(c *govmomi.Client, vm vim.Ref) (props mo.VirtualMachine) {
	s.t.Helper()
	must(s.t, c.RetrieveOne(s.ctx, vm, nil, &props))
	return props
}

// failsWith checks the fault of a call or of its task.
func failsWith[T types.BaseMethodFault](t *testing.T, err error) (want T) {
	t.Helper()
	if e, ok := err.(task.Error); ok {
		if e.Fault() == nil {
			return want // over VI/JSON a task's error is the bare fault, which govmomi does not read
		}
		if got, ok := e.Fault().(T); ok {
			return got
		}
		t.Fatalf("got %T, wanted %T", e.Fault(), want)
	}
	isFault[T](t, err)
	return want
}

func option(key, value string) types.BaseOptionValue {
	return &types.OptionValue{Key: key, Value: value}
}

func extraConfig(vm mo.VirtualMachine) map[string]any {
	found := map[string]any{}
	for _, o := range vm.Config.ExtraConfig {
		found[o.GetOptionValue().Key] = o.GetOptionValue().Value
	}
	return found
}

func TestACloneIsWhatWasAskedFor(t *testing.T) {
	both(t, func(t *testing.T, json bool) {
		s := newSite(t)
		c := s.login(json)
		golden, snapshot := s.golden(c)
		s.done(golden.Reconfigure(s.ctx, types.VirtualMachineConfigSpec{
			ExtraConfig: []types.BaseOptionValue{option("guestinfo.old", "stale"), option("guestinfo.gone", "stale"), option("kept", "yes")},
			VAppConfig: &types.VmConfigSpec{Property: []types.VAppPropertySpec{{
				ArrayUpdateSpec: types.ArrayUpdateSpec{Operation: types.ArrayUpdateOperationAdd},
				Info:            &types.VAppPropertyInfo{Key: 1, Id: "p", Type: "string"},
			}}},
		}))
		vm, err := s.clone(c, golden, "clone", s.linked(snapshot, func(spec *types.VirtualMachineCloneSpec) {
			spec.PowerOn = true
			spec.Location.Datastore = &vim.Ref{Type: "Datastore", Value: s.Found.Datastores["ds0"]}
			spec.Location.DeviceChange = []types.BaseVirtualDeviceConfigSpec{&types.VirtualDeviceConfigSpec{
				Operation: types.VirtualDeviceConfigSpecOperationEdit, Device: s.adapter(c, golden),
			}}
			*spec.Config = types.VirtualMachineConfigSpec{
				Uuid: "42100000-0000-0000-0000-000000000001", InstanceUuid: "50100000-0000-0000-0000-000000000001",
				NumCPUs: 4, MemoryMB: 8192, Annotation: "by test",
				ManagedBy:         &types.ManagedByInfo{ExtensionKey: "vmware.vmoperator", Type: "VirtualMachine"},
				CpuAllocation:     &types.ResourceAllocationInfo{Reservation: types.NewInt64(1000), Limit: types.NewInt64(4000)},
				MemoryAllocation:  &types.ResourceAllocationInfo{Reservation: types.NewInt64(8192)},
				Flags:             &types.VirtualMachineFlagInfo{DiskUuidEnabled: types.NewBool(true)},
				VmProfile:         []types.BaseVirtualMachineProfileSpec{&types.VirtualMachineDefinedProfileSpec{ProfileId: "gold"}},
				VAppConfigRemoved: types.NewBool(true),
				ExtraConfig:       []types.BaseOptionValue{option("guestinfo.new", "1"), option("guestinfo.gone", ""), option("never", "")},
			}
		}))
		must(t, err)
		got := s.props(c, vm)
		config := got.Config
		switch {
		case config.Uuid != "42100000-0000-0000-0000-000000000001", config.InstanceUuid != "50100000-0000-0000-0000-000000000001",
			config.Hardware.NumCPU != 4, config.Hardware.MemoryMB != 8192, config.Annotation != "by test",
			config.ManagedBy == nil || config.ManagedBy.ExtensionKey != "vmware.vmoperator",
			*config.CpuAllocation.Reservation != 1000, *config.CpuAllocation.Limit != 4000,
			*config.MemoryAllocation.Reservation != 8192, *config.MemoryAllocation.Limit != -1,
			config.Flags.DiskUuidEnabled == nil || !*config.Flags.DiskUuidEnabled,
			config.VAppConfig != nil,
			got.Runtime.PowerState != types.VirtualMachinePowerStatePoweredOn:
			t.Errorf("clone: %+v", config)
		}
		options := extraConfig(got)
		for key, want := range map[string]any{"guestinfo.old": "stale", "kept": "yes", "guestinfo.new": "1", "guestinfo.gone": nil, "never": nil} {
			if have := options[key]; have != want {
				t.Errorf("%s is %v, wanted %v", key, have, want)
			}
		}
		if _, there := options["never"]; there {
			t.Error("an empty value was kept")
		}
		devices := object.VirtualDeviceList(config.Hardware.Device)
		if vim.LinkedDisk(vim.Disks(devices)[0]) == nil {
			t.Error("the disk rests on nothing")
		}
		adapter := devices.SelectByType((*types.VirtualEthernetCard)(nil))[0].(types.BaseVirtualEthernetCard).GetVirtualEthernetCard()
		if port, ok := adapter.Backing.(*types.VirtualEthernetCardDistributedVirtualPortBackingInfo); !ok || port.Port.PortgroupKey != s.Found.Networks["workload"] {
			t.Errorf("adapter %+v", adapter)
		}
		if profiles := s.Machines.ProfilesOf(vm); !slices.Equal(profiles.Home, []string{"gold"}) || len(profiles.Disks) != 0 {
			t.Errorf("profiles %v", profiles)
		}
		// Nobody looks after the golden VM's disk but who destroys it.
		made, _ := s.VMOf(s.Fresh(), vm.Value)
		if s.storage.LacksFiles(s.Fresh(), made) {
			t.Error("a disk is gone before its time")
		}
		s.done(golden.Destroy(s.ctx))
		if !s.storage.LacksFiles(s.Fresh(), made) {
			t.Error("the clone's disk rests on what is gone")
		}
	})
}

// adapter is the golden VM's adapter, moved to the port group.
func (s *site) adapter(c *govmomi.Client, vm *object.VirtualMachine) types.BaseVirtualDevice {
	s.t.Helper()
	devices, err := vm.Device(s.ctx)
	must(s.t, err)
	adapter := devices.SelectByType((*types.VirtualEthernetCard)(nil))[0]
	group := object.NewDistributedVirtualPortgroup(c.Client, vim.Ref{Type: "DistributedVirtualPortgroup", Value: s.Found.Networks["workload"]})
	backing, err := group.EthernetCardBackingInfo(s.ctx)
	must(s.t, err)
	ethernet := adapter.(types.BaseVirtualEthernetCard).GetVirtualEthernetCard()
	ethernet.Backing = backing
	return adapter
}

func TestACloneIsRefused(t *testing.T) {
	s := newSite(t, func(o *spec.Options) { o.Spec.Datastores = []string{"ds0", "ds1"} })
	c := s.login(false)
	golden, snapshot := s.golden(c)
	nowhere := vim.Ref{Type: "VirtualMachineSnapshot", Value: "snapshot-999"}
	other := s.create(c, "other")
	s.done(other.CreateSnapshot(s.ctx, "s", "", false, false))
	foreign := *s.props(c, other.Reference()).Snapshot.CurrentSnapshot

	clone := func(snapshot vim.Ref, edit ...func(*types.VirtualMachineCloneSpec)) error {
		_, err := s.clone(c, golden, "x", s.linked(snapshot, edit...))
		return err
	}
	failsWith[*types.ManagedObjectNotFound](t, clone(nowhere))
	failsWith[*types.InvalidArgument](t, clone(foreign))
	failsWith[*types.InvalidArgument](t, clone(snapshot, func(spec *types.VirtualMachineCloneSpec) { spec.Snapshot = nil }))
	failsWith[*types.NotSupported](t, clone(snapshot, func(spec *types.VirtualMachineCloneSpec) { spec.Config.SevEnabled = types.NewBool(true) }))
	failsWith[*types.InvalidDeviceOperation](t, clone(snapshot, func(spec *types.VirtualMachineCloneSpec) {
		devices, _ := golden.Device(s.ctx)
		disk := devices.SelectByType((*types.VirtualDisk)(nil))[0].(*types.VirtualDisk)
		disk.CapacityInBytes, disk.CapacityInKB = 0, disk.CapacityInKB*2
		spec.Config.DeviceChange = []types.BaseVirtualDeviceConfigSpec{
			&types.VirtualDeviceConfigSpec{Operation: types.VirtualDeviceConfigSpecOperationEdit, Device: disk},
		}
	}))
	elsewhere := vim.Ref{Type: "Datastore", Value: s.Found.Datastores["ds1"]}
	failsWith[*types.InvalidArgument](t, clone(snapshot, func(spec *types.VirtualMachineCloneSpec) { spec.Location.Datastore = &elsewhere }))
	s.done(golden.Reconfigure(s.ctx, types.VirtualMachineConfigSpec{NumCPUs: 4, NumCoresPerSocket: types.NewInt32(2)}))
	failsWith[*types.InvalidArgument](t, clone(snapshot, func(spec *types.VirtualMachineCloneSpec) { spec.Config.NumCPUs = 3 }))
	// What failed left nothing, so the name is free.
	must(t, clone(snapshot))
	failsWith[*types.DuplicateName](t, clone(snapshot))
	files := &types.VirtualMachineFileInfo{VmPathName: "[ds0]"}
	failsWith[*types.DuplicateName](t, s.ended(s.folder(c).CreateVM(
		s.ctx, types.VirtualMachineConfigSpec{Name: "x", Files: files}, object.NewResourcePool(c.Client, *s.pool()), nil,
	)))
	failsWith[*types.DuplicateName](t, s.ended(other.Rename(s.ctx, "x")))
}

func TestAnInstanceUUIDIsGivenOnce(t *testing.T) {
	s := newSite(t)
	c := s.login(false)
	golden, snapshot := s.golden(c)
	const uuid = "50100000-0000-0000-0000-000000000001"
	same := func(spec *types.VirtualMachineCloneSpec) { spec.Config.InstanceUuid = uuid }
	a, err := s.clone(c, golden, "a", s.linked(snapshot, same))
	must(t, err)
	b, err := s.clone(c, golden, "b", s.linked(snapshot, same))
	must(t, err)
	if got := s.props(c, a).Config.InstanceUuid; got != uuid {
		t.Errorf("first: %s", got)
	}
	if got := s.props(c, b).Config.InstanceUuid; got == uuid || got == "" {
		t.Errorf("second: %s", got)
	}
	found, err := object.NewSearchIndex(c.Client).FindByUuid(s.ctx, nil, uuid, true, types.NewBool(true))
	must(t, err)
	if found.Reference() != a {
		t.Errorf("found %v", found)
	}
}

func TestReconfiguration(t *testing.T) {
	s := newSite(t)
	c := s.login(false)
	vm := s.create(c, "vm")
	version := s.props(c, vm.Reference()).Config.ChangeVersion
	set := func(spec types.VirtualMachineConfigSpec) error {
		return s.ended(vm.Reconfigure(s.ctx, spec))
	}
	must(t, set(types.VirtualMachineConfigSpec{ChangeVersion: version, ExtraConfig: []types.BaseOptionValue{option("k", "v")}}))
	failsWith[*types.ConcurrentAccess](t, set(types.VirtualMachineConfigSpec{ChangeVersion: version, Annotation: "late"}))
	must(t, set(types.VirtualMachineConfigSpec{ExtraConfig: []types.BaseOptionValue{option("k", ""), option("absent", "")}}))
	options := extraConfig(s.props(c, vm.Reference()))
	for _, key := range []string{"k", "absent"} {
		if _, there := options[key]; there {
			t.Errorf("%s is still there", key)
		}
	}
	s.done(vm.PowerOn(s.ctx))
	failsWith[*types.CpuHotPlugNotSupported](t, set(types.VirtualMachineConfigSpec{NumCPUs: 8}))
	failsWith[*types.NotSupported](t, set(types.VirtualMachineConfigSpec{SwapPlacement: "hostLocal"}))
}

func TestTasksHaveTheNamesOfTheirMethods(t *testing.T) {
	s := newSite(t)
	c := s.login(false)
	vm := s.create(c, "vm")
	named := func(want string) func(*object.Task, error) {
		return func(task *object.Task, err error) {
			t.Helper()
			s.done(task, err)
			var props mo.Task
			must(t, c.RetrieveOne(s.ctx, task.Reference(), []string{"info.name"}, &props))
			if props.Info.Name != want {
				t.Errorf("%s, wanted %s", props.Info.Name, want)
			}
		}
	}
	named("PowerOnVM_Task")(vm.PowerOn(s.ctx))
	named("ResetVM_Task")(vm.Reset(s.ctx))
	named("PowerOffVM_Task")(vm.PowerOff(s.ctx))
	named("ReconfigVM_Task")(vm.Reconfigure(s.ctx, types.VirtualMachineConfigSpec{Annotation: "a"}))
	named("CreateSnapshot_Task")(vm.CreateSnapshot(s.ctx, "s", "", false, false))
	named("Destroy_Task")(vm.Destroy(s.ctx))
}

func TestReservationsAreAdmitted(t *testing.T) {
	s := newSite(t, func(o *spec.Options) { o.Spec.Hosts, o.Spec.HostMemoryMiB = 2, 8192 })
	c := s.login(false)
	golden, snapshot := s.golden(c)
	reserve := func(mib int64) func(*types.VirtualMachineCloneSpec) {
		return func(spec *types.VirtualMachineCloneSpec) {
			spec.PowerOn = true
			spec.Config.MemoryMB = mib
			spec.Config.MemoryAllocation = &types.ResourceAllocationInfo{Reservation: &mib}
		}
	}
	for _, name := range []string{"a", "b"} {
		_, err := s.clone(c, golden, name, s.linked(snapshot, reserve(6144)))
		must(t, err)
	}
	_, err := s.clone(c, golden, "c", s.linked(snapshot, reserve(6144)))
	fault := failsWith[*types.InsufficientMemoryResourcesFault](t, err)
	if fault.Requested != 6144<<20 || fault.Unreserved != 2048<<20 {
		t.Errorf("%+v", fault)
	}
	_, err = s.clone(c, golden, "d", s.linked(snapshot, reserve(2048)))
	must(t, err)

	limit := types.DefaultResourceConfigSpec()
	limit.MemoryAllocation.Limit = types.NewInt64(1024)
	pool, err := object.NewResourcePool(c.Client, *s.pool()).Create(s.ctx, "small", limit)
	must(t, err)
	small := pool.Reference()
	_, err = s.clone(c, golden, "e", s.linked(snapshot, reserve(2048), func(spec *types.VirtualMachineCloneSpec) { spec.Location.Pool = &small }))
	failsWith[*types.InsufficientMemoryResourcesFault](t, err)
}

// Sixteen clones at a time, on either wire, with a stream open; then they all go.
func TestManyClonesWithAStreamOpen(t *testing.T) {
	const many, workers = 64, 16
	both(t, func(t *testing.T, json bool) {
		s := newSite(t)
		c := s.login(json)
		golden, snapshot := s.golden(c)
		w := s.watchVMs(s.login(json))
		w.until("golden", func() bool { return w.named("golden") != nil })
		tasks := make(chan vim.Ref, many)
		s.inParallel(workers, many, func(i int) {
			task, err := golden.Clone(s.ctx, s.folder(c), fmt.Sprint("clone-", i), s.linked(snapshot, func(spec *types.VirtualMachineCloneSpec) {
				spec.PowerOn = true
				spec.Config.InstanceUuid = fmt.Sprintf("50100000-0000-0000-0000-%012d", i)
				spec.Config.ExtraConfig = []types.BaseOptionValue{option("guestinfo.userdata", strings.Repeat("x", 8192))}
			}))
			if err != nil {
				t.Error(err)
				return
			}
			tasks <- task.Reference()
		})
		close(tasks)
		w.list(slice(tasks)...)
		start := time.Now()
		w.until("all on, all tasks done", func() bool {
			on, done := 0, 0
			for _, values := range w.seen {
				if values["runtime.powerState"] == types.VirtualMachinePowerStatePoweredOn {
					on++
				}
				if values["info.state"] == types.TaskInfoStateSuccess {
					done++
				}
			}
			return on == many && done == many
		})
		t.Logf("seen after %v", time.Since(start))
		hosts := map[string]int{}
		s.Machines.Find(func(r core.Row) bool { hosts[r.Host.Value]++; return false })
		if len(hosts) != 4 {
			t.Errorf("all on few hosts: %v", hosts)
		}
		vms := s.Machines.Find(func(r core.Row) bool { return r.Name != "golden" })
		s.inParallel(workers, len(vms), func(i int) {
			vm := object.NewVirtualMachine(c.Client, vms[i])
			for _, f := range []func() (*object.Task, error){
				func() (*object.Task, error) { return vm.PowerOff(s.ctx) },
				func() (*object.Task, error) { return vm.Destroy(s.ctx) },
			} {
				task, err := f()
				if err == nil {
					err = task.Wait(s.ctx)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
		w.until("all gone", func() bool { return len(w.left) == many })
	})
}

func (s *site) inParallel(workers, n int, f func(int)) {
	var wait sync.WaitGroup
	next := make(chan int)
	for range workers {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for i := range next {
				f(i)
			}
		}()
	}
	for i := range n {
		next <- i
	}
	close(next)
	wait.Wait()
}

func slice(c <-chan vim.Ref) (all []vim.Ref) {
	for r := range c {
		all = append(all, r)
	}
	return all
}

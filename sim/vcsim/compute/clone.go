package compute

import (
	"slices"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/simulator/esx"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/core"
	"layercake.invalid/sim/vcsim/faults"
	"layercake.invalid/sim/vcsim/inventory"
	"layercake.invalid/sim/vcsim/vim"
)

// cloning is one CloneVM_Task on its way.
type cloning struct {
	vms    *Compute
	req    *types.CloneVM_Task
	source vim.Ref
	rule   *faults.Rule // the fault that it meets

	config    types.VirtualMachineConfigInfo // the source's, copied
	vApp      types.BaseVmConfigSpec         // the source's, changed
	heeded    heeded                         // of the changes in the location
	template  bool
	snapshots []types.VirtualMachineSnapshotTree
	pool      vim.Ref
	host      vim.Ref
	datastore string
}

// cloneVM stands in for the library's method, which drops most of the spec without a word, serialises all clones of a
// source, and puts them all on its host.
func (cp *Compute) cloneVM(ctx *simulator.Context, k *core.Call, body types.AnyType) soap.HasFault {
	req := body.(*types.CloneVM_Task)
	c := &cloning{vms: cp, req: req, source: req.This}
	location := req.Spec.Location
	for _, r := range []*vim.Ref{&req.This, &req.Folder, location.Pool, location.Datastore, location.Host, req.Spec.Snapshot} {
		if r != nil && ctx.Map.Get(*r) == nil {
			return vim.Gone(*r)
		}
	}
	if k != nil {
		c.rule = k.Rule
	}
	return cp.InTask(req.This, "CloneVM_Task", c.run)
}

func (c *cloning) run() (types.AnyType, types.BaseMethodFault) {
	ctx := c.vms.Fresh()
	for _, step := range []func(*simulator.Context) types.BaseMethodFault{c.look, c.check, c.place} {
		if fault := step(ctx); fault != nil {
			return nil, fault
		}
	}
	release, fault := c.vms.inventory.ClaimName(c.req.Folder, c.req.Name)
	if fault != nil {
		return nil, fault
	}
	defer release()
	if c.meets(faults.KindHold) || c.meets(faults.KindDelay) {
		c.vms.Rules.Wait(c.rule, c.vms.Done)
	}
	vm, fault := c.make(ctx)
	if fault != nil {
		return nil, fault
	}
	if c.meets(faults.KindHalfClone) {
		return nil, c.rule.Detail(c.source)
	}
	if c.req.Spec.PowerOn && !c.req.Spec.Template {
		on := c.vms.Fresh()
		if _, fault := c.vms.Follow(c.vms.powerOn(on, nil, &types.PowerOnVM_Task{This: vm})); fault != nil {
			return nil, fault
		}
	}
	return vm, nil
}

func (c *cloning) meets(kind string) bool { return c.rule != nil && c.rule.Kind == kind }

// look copies what is needed of the source.
func (c *cloning) look(ctx *simulator.Context) types.BaseMethodFault {
	vm, ok := c.vms.VMOf(ctx, c.source.Value)
	if !ok {
		return &types.ManagedObjectNotFound{Obj: c.source}
	}
	c.config = vim.VMConfig(ctx, vm)
	var path object.DatastorePath
	path.FromString(c.config.Files.VmPathName)
	c.datastore = path.Datastore
	ctx.WithLock(vm, func() {
		c.template = vm.Config.Template
		if vm.Snapshot != nil {
			c.snapshots = slices.Clone(vm.Snapshot.RootSnapshotList)
		}
		if vm.ResourcePool != nil {
			c.pool = *vm.ResourcePool
		}
	})
	return nil
}

// check refuses what cannot be done, or would be dropped.
func (c *cloning) check(ctx *simulator.Context) types.BaseMethodFault {
	spec := c.req.Spec
	location := spec.Location
	switch {
	case !vim.IsName(c.req.Name):
		return &types.InvalidName{Name: c.req.Name}
	case location.Pool == nil && c.template:
		return &types.InvalidArgument{InvalidProperty: "spec.location.pool"}
	case spec.Snapshot != nil && !hasSnapshot(c.snapshots, *spec.Snapshot):
		return &types.InvalidArgument{InvalidProperty: "spec.snapshot"}
	case location.Service != nil:
		return notSupported("spec.location.service")
	case location.CryptoSpec != nil:
		return notSupported("spec.location.cryptoSpec")
	case spec.Memory != nil && *spec.Memory:
		return notSupported("spec.memory")
	case spec.TpmProvisionPolicy != "":
		return notSupported("spec.tpmProvisionPolicy")
	case spec.Customization != nil && spec.Template:
		return &types.InvalidArgument{InvalidProperty: "spec.customization"}
	}
	switch location.DiskMoveType {
	case "", "moveAllDiskBackingsAndDisallowSharing", "moveAllDiskBackingsAndConsolidate":
	case "createNewChildDiskBacking":
		if spec.Snapshot == nil {
			return &types.InvalidArgument{InvalidProperty: "spec.snapshot"}
		}
	default:
		return notSupported("spec.location.diskMoveType " + location.DiskMoveType)
	}
	if location.DiskMoveType == "createNewChildDiskBacking" && location.Datastore != nil {
		// A child on another datastore than its base is promised nowhere.
		if fault := c.sameDatastore(ctx, *location.Datastore); fault != nil {
			return fault
		}
	}
	for _, disk := range location.Disk {
		if location.Datastore == nil || disk.Datastore != *location.Datastore || disk.DiskMoveType != location.DiskMoveType {
			return notSupported("spec.location.disk with a datastore or diskMoveType of its own")
		}
	}
	var fault types.BaseMethodFault
	if c.heeded, fault = heed(c.config.Hardware.Device, &location); fault != nil {
		return fault
	}
	c.vApp = vAppSpec(c.config.VAppConfig)
	if spec.Config == nil {
		return nil
	}
	if fault := checkConfig("spec.config", spec.Config); fault != nil {
		return fault
	}
	if fault := checkSizes("spec.config", &c.config, spec.Config); fault != nil {
		return fault
	}
	c.vApp, fault = mergeVApp(c.vApp, spec.Config.VAppConfig)
	return fault
}

// sameDatastore refuses to link a disk to a base on another datastore.
func (c *cloning) sameDatastore(ctx *simulator.Context, wanted vim.Ref) types.BaseMethodFault {
	for _, disk := range vim.Disks(c.config.Hardware.Device) {
		var path object.DatastorePath
		file, ok := disk.Backing.(types.BaseVirtualDeviceFileBackingInfo)
		if !ok || !path.FromString(file.GetVirtualDeviceFileBackingInfo().FileName) {
			continue
		}
		if datastore, ok := ctx.Map.Get(wanted).(*simulator.Datastore); ok && datastore.Name != path.Datastore {
			return &types.InvalidArgument{InvalidProperty: "spec.location.datastore"}
		}
	}
	return nil
}

func hasSnapshot(tree []types.VirtualMachineSnapshotTree, wanted vim.Ref) bool {
	return slices.ContainsFunc(tree, func(t types.VirtualMachineSnapshotTree) bool {
		return t.Snapshot == wanted || hasSnapshot(t.ChildSnapshotList, wanted)
	})
}

// place chooses pool, datastore and host.
func (c *cloning) place(ctx *simulator.Context) types.BaseMethodFault {
	location := c.req.Spec.Location
	if location.Pool != nil {
		c.pool = *location.Pool
	}
	if location.Datastore != nil {
		datastore, ok := ctx.Map.Get(*location.Datastore).(*simulator.Datastore)
		if !ok {
			return &types.InvalidArgument{InvalidProperty: "spec.location.datastore"}
		}
		c.datastore = datastore.Name
	}
	if location.Host != nil {
		c.host = *location.Host
		return nil
	}
	host, ok := c.vms.inventory.ChooseHost(ctx, c.pool, c.datastore)
	if !ok {
		return &types.NoCompatibleHost{}
	}
	c.host = host
	return nil
}

// make creates the VM, unseen until it is all that was asked for.
func (c *cloning) make(ctx *simulator.Context) (vim.Ref, types.BaseMethodFault) {
	s := c.vms
	wanted := ""
	if c.req.Spec.Config != nil {
		wanted = c.req.Spec.Config.InstanceUuid
	}
	uuid, release := s.inventory.ClaimInstanceUUID(wanted, vim.Ref{})
	defer release()
	config := c.spec(uuid)

	show := s.Hub.Hide(c.req.Folder, inventory.Escaped(c.req.Name))
	defer show()
	folder, ok := ctx.Map.Get(c.req.Folder).(mo.Reference)
	if !ok {
		return vim.Ref{}, &types.ManagedObjectNotFound{Obj: c.req.Folder}
	}
	result, fault := s.storage.Writing(ctx, folder.Reference(), "CreateVM_Task",
		&types.CreateVM_Task{This: c.req.Folder, Config: config, Pool: c.pool, Host: &c.host})
	if fault != nil {
		return vim.Ref{}, fault
	}
	vm := result.(vim.Ref)
	s.Images.Set(vm, s.Images.Get(c.source))
	if fault := c.finish(vm); fault != nil {
		// vCenter clears up after a clone that fails.
		_ = s.inventory.DestroyVM(vm)
		return vim.Ref{}, fault
	}
	return vm, nil
}

// finish does what needs a VM: changes of the copied devices, customization, the mark of a template.
func (c *cloning) finish(vm vim.Ref) types.BaseMethodFault {
	s, spec := c.vms, c.req.Spec
	if spec.Config == nil || spec.Config.VAppConfigRemoved == nil || !*spec.Config.VAppConfigRemoved {
		s.setOvfTransport(vm, c.vApp)
	}
	ctx := s.Fresh()
	if fault := c.changeDevices(ctx, vm); fault != nil {
		return fault
	}
	if spec.Customization != nil {
		_, fault := s.Follow(s.Invoke(ctx, vm, "CustomizeVM_Task", &types.CustomizeVM_Task{This: vm, Spec: *spec.Customization}))
		if fault != nil {
			return fault
		}
	}
	if spec.Template {
		_, fault := s.Follow(s.Invoke(ctx, vm, "MarkAsTemplate", &types.MarkAsTemplate{This: vm}))
		return fault
	}
	return nil
}

// changeDevices carries out what the location says of adapters, then what the settings say of any device, and notes the
// storage profiles of both.
func (c *cloning) changeDevices(ctx *simulator.Context, vm vim.Ref) types.BaseMethodFault {
	s, spec := c.vms, c.req.Spec
	s.Machines.SetProfiles(vm, idsOf(spec.Location.Profile), c.heeded.profiles)
	made, _ := s.VMOf(ctx, vm.Value)
	if fault := c.change(ctx, vm, c.heeded.edits(vim.VMConfig(ctx, made).Hardware.Device)); fault != nil {
		return fault
	}
	if spec.Config == nil || c.meets(faults.KindNoDevices) {
		return nil
	}
	devices := vim.VMConfig(ctx, made).Hardware.Device
	changes := ownFiles(devices, completed(devices, spec.Config.DeviceChange))
	if fault := checkDisks(devices, changes); fault != nil {
		return fault
	}
	ctx.WithLock(made, func() { number(made.Config.Hardware.Device, changes) })
	if fault := c.change(ctx, vm, changes); fault != nil {
		return fault
	}
	s.noteProfiles(vm, profilesOf(spec.Config), changes)
	return nil
}

func (c *cloning) change(ctx *simulator.Context, vm vim.Ref, changes []types.BaseVirtualDeviceConfigSpec) types.BaseMethodFault {
	if len(changes) == 0 {
		return nil
	}
	_, fault := c.vms.storage.Reading(ctx, vm, "ReconfigVM_Task", &types.ReconfigVM_Task{
		This: vm, Spec: types.VirtualMachineConfigSpec{DeviceChange: changes},
	})
	return fault
}

// spec is the configuration of the new VM: the source's, with what the caller wants on top.
func (c *cloning) spec(instanceUUID string) types.VirtualMachineConfigSpec {
	source := c.config.ToConfigSpec()
	path := object.DatastorePath{Datastore: c.datastore, Path: inventory.Escaped(c.req.Name)}
	config := types.VirtualMachineConfigSpec{
		Name:         vim.Unescaped(c.req.Name), // the library escapes it
		Uuid:         vim.NewUUID(),
		InstanceUuid: instanceUUID,
		Files:        &types.VirtualMachineFileInfo{VmPathName: path.String()},
		VAppConfig:   c.vApp,
		DeviceChange: c.devices(),
	}
	copyFields(&config, &source, inherited)
	options := slices.DeleteFunc(source.ExtraConfig, func(o types.BaseOptionValue) bool {
		return o.GetOptionValue().Key == "govcsim" // the library adds its own
	})
	if wanted := c.req.Spec.Config; wanted != nil {
		copyFields(&config, wanted, inherited)
		copyFields(&config, wanted, []string{"Crypto", "ManagedBy", "RepConfig", "TagSpecs", "Uuid"})
		config.CpuAllocation = mergeAllocation(source.CpuAllocation, wanted.CpuAllocation)
		config.MemoryAllocation = mergeAllocation(source.MemoryAllocation, wanted.MemoryAllocation)
		options = mergeOptions(options, wanted.ExtraConfig)
		config.VAppConfig = c.vApp
		if wanted.VAppConfigRemoved != nil && *wanted.VAppConfigRemoved {
			config.VAppConfig = nil
		}
	}
	config.ExtraConfig = options
	return config
}

// devices copies the source's, apart from those that every VM gets. A linked clone's disks rest on the source's.
func (c *cloning) devices() []types.BaseVirtualDeviceConfigSpec {
	var changes []types.BaseVirtualDeviceConfigSpec
	all := object.VirtualDeviceList(c.config.Hardware.Device)
	defaults := object.VirtualDeviceList(esx.VirtualDevice)
	linked := c.req.Spec.Location.DiskMoveType == "createNewChildDiskBacking"
	for _, device := range all {
		if defaults.Find(all.Name(device)) != nil {
			continue
		}
		add := &types.VirtualDeviceConfigSpec{Operation: types.VirtualDeviceConfigSpecOperationAdd, Device: device}
		switch d := device.(type) {
		case *types.VirtualDisk:
			add.FileOperation = types.VirtualDeviceConfigSpecFileOperationCreate
			if backing, ok := d.Backing.(*types.VirtualDiskFlatVer2BackingInfo); ok {
				base := *backing
				backing.FileName, backing.Uuid, backing.Datastore, backing.Parent = "", "", nil, nil
				if linked {
					backing.Parent = &base
				}
			}
		case types.BaseVirtualEthernetCard:
			if adapter := d.GetVirtualEthernetCard(); adapter.AddressType != string(types.VirtualEthernetCardMacTypeManual) {
				adapter.MacAddress = ""
			}
		}
		changes = append(changes, add)
	}
	return changes
}

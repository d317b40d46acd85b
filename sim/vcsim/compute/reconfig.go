package compute

import (
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/core"
	"layercake.invalid/sim/vcsim/inventory"
	"layercake.invalid/sim/vcsim/vim"
)

// ReconfigVM checks what the library lets pass, and puts right what it does otherwise than vCenter.
func (cp *Compute) ReconfigVM(ctx *simulator.Context, _ *core.Call, body types.AnyType) soap.HasFault {
	req := body.(*types.ReconfigVM_Task)
	vm, ok := cp.VMOf(ctx, req.This.Value)
	if !ok {
		return cp.Invoke(ctx, req.This, "ReconfigVM_Task", body)
	}
	fail := func(fault types.BaseMethodFault) soap.HasFault {
		return cp.FailedTask(req.This, "ReconfigVM_Task", fault)
	}
	if fault := checkConfig("spec", &req.Spec); fault != nil {
		return fail(fault)
	}
	req.Spec.Name = vim.Escaped(req.Spec.Name)
	release, fault := cp.claimRename(ctx, vm, req)
	if fault != nil {
		return fail(fault)
	}
	defer release()
	if req.Spec.InstanceUuid != "" {
		uuid, release := cp.inventory.ClaimInstanceUUID(req.Spec.InstanceUuid, req.This)
		defer release()
		req.Spec.InstanceUuid = uuid
	}
	res, fault := cp.reconfigure(ctx, vm, req)
	if fault != nil {
		return fail(fault)
	}
	return res
}

// reconfigure carries out what is admitted. It waits for the end: claims of names and numbers hold until then.
func (cp *Compute) reconfigure(ctx *simulator.Context, vm *simulator.VirtualMachine, req *types.ReconfigVM_Task) (res soap.HasFault, fault types.BaseMethodFault) {
	if req.Spec.CpuAllocation != nil || req.Spec.MemoryAllocation != nil {
		cp.inventory.Admission.Lock()
		defer cp.inventory.Admission.Unlock()
	}
	if fault := cp.admitMore(ctx, vm, &req.Spec); fault != nil {
		return nil, fault
	}
	cp.storage.Files.RLock()
	defer cp.storage.Files.RUnlock()
	ctx.WithLock(vm, func() {
		if fault = checkReconfig(vm, &req.Spec); fault == nil {
			adjust(ctx, vm, &req.Spec)
			res = cp.Invoke(ctx, req.This, "ReconfigVM_Task", req)
		}
	})
	if fault != nil {
		return nil, fault
	}
	if _, fault := cp.Follow(res); fault == nil {
		cp.noteProfiles(req.This, profilesOf(&req.Spec), req.Spec.DeviceChange)
	}
	cp.setOvfTransport(req.This, req.Spec.VAppConfig)
	return res, nil
}

func (cp *Compute) claimRename(ctx *simulator.Context, vm *simulator.VirtualMachine, req *types.ReconfigVM_Task) (func(), types.BaseMethodFault) {
	var parent vim.Ref
	var name string
	ctx.WithLock(vm, func() { parent, name = *vm.Parent, vm.Name })
	if req.Spec.Name == "" || inventory.Escaped(req.Spec.Name) == name {
		return func() {}, nil
	}
	return cp.inventory.ClaimName(parent, req.Spec.Name)
}

// admitMore checks that a running VM's greater reservation can be met.
func (cp *Compute) admitMore(ctx *simulator.Context, vm *simulator.VirtualMachine, spec *types.VirtualMachineConfigSpec) types.BaseMethodFault {
	if spec.CpuAllocation == nil && spec.MemoryAllocation == nil {
		return nil
	}
	var running bool
	var extra core.Demand
	ctx.WithLock(vm, func() {
		running = vm.Runtime.PowerState == types.VirtualMachinePowerStatePoweredOn
		now := core.DemandOf(vm)
		wanted := now
		wanted.CPU, _ = vim.Allocation(mergeAllocation(vm.Config.CpuAllocation, spec.CpuAllocation))
		if locked := vm.Config.MemoryReservationLockedToMax; locked == nil || !*locked {
			wanted.Memory, _ = vim.Allocation(mergeAllocation(vm.Config.MemoryAllocation, spec.MemoryAllocation))
		}
		extra = wanted.Minus(now)
	})
	if !running || extra.CPU <= 0 && extra.Memory <= 0 {
		return nil
	}
	_, fault := cp.inventory.Admit(ctx, vm.Self, extra)
	return fault
}

// checkReconfig is called with the VM locked.
func checkReconfig(vm *simulator.VirtualMachine, spec *types.VirtualMachineConfigSpec) types.BaseMethodFault {
	if spec.ChangeVersion != "" && spec.ChangeVersion != vm.Config.ChangeVersion {
		return &types.ConcurrentAccess{}
	}
	if vm.Runtime.PowerState == types.VirtualMachinePowerStatePoweredOn {
		if spec.NumCPUs != 0 && spec.NumCPUs != vm.Config.Hardware.NumCPU && !isTrue(vm.Config.CpuHotAddEnabled) {
			return &types.CpuHotPlugNotSupported{}
		}
		if spec.MemoryMB != 0 && spec.MemoryMB != int64(vm.Config.Hardware.MemoryMB) && !isTrue(vm.Config.MemoryHotAddEnabled) {
			return &types.MemoryHotPlugNotSupported{}
		}
	}
	if fault := checkSizes("spec", vm.Config, spec); fault != nil {
		return fault
	}
	if fault := checkProperties(vm.Config.VAppConfig, spec.VAppConfig); fault != nil {
		return fault
	}
	devices := vm.Config.Hardware.Device
	if fault := checkFiles(devices, spec.DeviceChange); fault != nil {
		return fault
	}
	if vm.Snapshot != nil && len(vm.Snapshot.RootSnapshotList) != 0 {
		if fault := checkSnapshots(devices, spec.DeviceChange); fault != nil {
			return fault
		}
	}
	return checkDisks(devices, spec.DeviceChange)
}

// adjust prepares a spec for the library; the VM is locked.
func adjust(ctx *simulator.Context, vm *simulator.VirtualMachine, spec *types.VirtualMachineConfigSpec) {
	spec.ExtraConfig = withoutVoid(vm.Config.ExtraConfig, spec.ExtraConfig)
	spec.DeviceChange = completed(vm.Config.Hardware.Device, spec.DeviceChange)
	number(vm.Config.Hardware.Device, spec.DeviceChange)
	if spec.CpuAllocation != nil {
		spec.CpuAllocation = mergeAllocation(vm.Config.CpuAllocation, spec.CpuAllocation)
	}
	if spec.MemoryAllocation != nil {
		spec.MemoryAllocation = mergeAllocation(vm.Config.MemoryAllocation, spec.MemoryAllocation)
	}
	if spec.VAppConfigRemoved != nil && *spec.VAppConfigRemoved {
		ctx.Update(vm, []types.PropertyChange{vim.Change("config.vAppConfig", nil)})
	}
}

// createVM refuses a name that the folder has already, which the library does not.
func (cp *Compute) createVM(ctx *simulator.Context, _ *core.Call, body types.AnyType) soap.HasFault {
	req := body.(*types.CreateVM_Task)
	if req.Config.Name == "" {
		return cp.Invoke(ctx, req.This, "CreateVM_Task", body)
	}
	if fault := checkNew(&req.Config); fault != nil {
		return cp.FailedTask(req.This, "CreateVM_Task", fault)
	}
	host, fault := cp.inventory.Reachable(ctx, req.Pool, req.Host, req.Config.Files)
	if fault != nil {
		return vim.FaultBody(vim.FaultText(fault), fault)
	}
	req.Host = host
	release, fault := cp.inventory.ClaimName(req.This, req.Config.Name)
	if fault != nil {
		return cp.FailedTask(req.This, "CreateVM_Task", fault)
	}
	req.Config.Name = vim.Unescaped(req.Config.Name) // the library escapes it
	uuid, releaseUUID := cp.inventory.ClaimInstanceUUID(req.Config.InstanceUuid, vim.Ref{})
	req.Config.InstanceUuid = uuid
	if req.Config.Uuid == "" {
		req.Config.Uuid = vim.NewUUID()
	}
	return cp.InTask(req.This, "CreateVM_Task", func() (types.AnyType, types.BaseMethodFault) {
		defer release()
		defer releaseUUID()
		return cp.storage.Writing(cp.Fresh(), req.This, "CreateVM_Task", body)
	})
}

// checkNew refuses settings that no new VM can have, and numbers its devices.
func checkNew(spec *types.VirtualMachineConfigSpec) types.BaseMethodFault {
	if !vim.IsName(spec.Name) {
		return &types.InvalidName{Name: spec.Name}
	}
	number(nil, spec.DeviceChange)
	return checkSizes("config", nil, spec)
}

// importVApp refuses a name that the folder has already: an OVF deployment comes to this.
func (cp *Compute) importVApp(ctx *simulator.Context, _ *core.Call, body types.AnyType) soap.HasFault {
	req := body.(*types.ImportVApp)
	if spec, ok := req.Spec.(*types.VirtualMachineImportSpec); ok && req.Folder != nil {
		if fault := checkNew(&spec.ConfigSpec); fault != nil {
			return vim.FaultBody(vim.FaultText(fault), fault)
		}
		if holder, taken := cp.inventory.ChildNamed(*req.Folder, spec.ConfigSpec.Name); taken {
			fault := &types.DuplicateName{Name: spec.ConfigSpec.Name, Object: holder}
			return vim.FaultBody(vim.FaultText(fault), fault)
		}
		host, fault := cp.inventory.Reachable(ctx, req.This, req.Host, spec.ConfigSpec.Files)
		if fault != nil {
			return vim.FaultBody(vim.FaultText(fault), fault)
		}
		req.Host = host
	}
	return cp.lease(ctx, req)
}

// lease begins an import and waits until the VM exists. The library locks the pool and then the folder for an import. For a clone, it
// locks the folder first. Without the files lock, an import and a clone could wait for each other.
func (cp *Compute) lease(ctx *simulator.Context, req *types.ImportVApp) soap.HasFault {
	cp.storage.Files.Lock()
	defer cp.storage.Files.Unlock()
	changes := cp.Hub.Subscribe()
	defer cp.Hub.Unsubscribe(changes)
	res := cp.Invoke(ctx, req.This, "ImportVApp", req)
	begun, ok := res.(*methods.ImportVAppBody)
	if !ok || begun.Res == nil {
		return res
	}
	lease, ok := ctx.Session.Get(begun.Res.Returnval).(*simulator.HttpNfcLease)
	for initializing := ok; initializing; {
		ctx.WithLock(lease, func() { initializing = lease.State == types.HttpNfcLeaseStateInitializing })
		if initializing {
			<-changes.Wake
		}
	}
	return res
}

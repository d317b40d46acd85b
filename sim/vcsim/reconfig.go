package main

import (
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// reconfigVM checks what the library lets pass, and puts right what it does otherwise than vCenter.
func (s *Sim) reconfigVM(ctx *simulator.Context, _ *call, body types.AnyType) soap.HasFault {
	req := body.(*types.ReconfigVM_Task)
	vm, ok := s.vmOf(ctx, req.This.Value)
	if !ok {
		return s.invoke(ctx, req.This, "ReconfigVM_Task", body)
	}
	fail := func(fault types.BaseMethodFault) soap.HasFault {
		task := s.failedTask(req.This, "ReconfigVM_Task", fault)
		return &methods.ReconfigVM_TaskBody{Res: &types.ReconfigVM_TaskResponse{Returnval: task}}
	}
	if fault := checkConfig("spec", &req.Spec); fault != nil {
		return fail(fault)
	}
	release, fault := s.claimRename(ctx, vm, req)
	if fault != nil {
		return fail(fault)
	}
	defer release()
	if req.Spec.InstanceUuid != "" {
		uuid, release := s.claimInstanceUUID(req.Spec.InstanceUuid, req.This)
		defer release()
		req.Spec.InstanceUuid = uuid
	}
	res, fault := s.reconfigure(ctx, vm, req)
	if fault != nil {
		return fail(fault)
	}
	return res
}

// reconfigure carries out what is admitted. It waits for the end: claims of names and numbers hold until then.
func (s *Sim) reconfigure(ctx *simulator.Context, vm *simulator.VirtualMachine, req *types.ReconfigVM_Task) (res soap.HasFault, fault types.BaseMethodFault) {
	if req.Spec.CpuAllocation != nil || req.Spec.MemoryAllocation != nil {
		s.admission.Lock()
		defer s.admission.Unlock()
	}
	if fault := s.admitMore(ctx, vm, &req.Spec); fault != nil {
		return nil, fault
	}
	s.files.RLock()
	defer s.files.RUnlock()
	ctx.WithLock(vm, func() {
		if fault = checkReconfig(vm, &req.Spec); fault == nil {
			adjust(ctx, vm, &req.Spec)
			res = s.invoke(ctx, req.This, "ReconfigVM_Task", req)
		}
	})
	if fault != nil {
		return nil, fault
	}
	if _, fault := s.follow(res); fault == nil {
		s.noteProfiles(req.This, profilesOf(&req.Spec), req.Spec.DeviceChange)
	}
	s.setOvfTransport(req.This, req.Spec.VAppConfig)
	return res, nil
}

func (s *Sim) claimRename(ctx *simulator.Context, vm *simulator.VirtualMachine, req *types.ReconfigVM_Task) (func(), types.BaseMethodFault) {
	var parent ref
	var name string
	ctx.WithLock(vm, func() { parent, name = *vm.Parent, vm.Name })
	if req.Spec.Name == "" || escaped(req.Spec.Name) == name {
		return func() {}, nil
	}
	return s.claimName(parent, req.Spec.Name)
}

// admitMore checks that a running VM's greater reservation can be met.
func (s *Sim) admitMore(ctx *simulator.Context, vm *simulator.VirtualMachine, spec *types.VirtualMachineConfigSpec) types.BaseMethodFault {
	if spec.CpuAllocation == nil && spec.MemoryAllocation == nil {
		return nil
	}
	var running bool
	var extra demand
	ctx.WithLock(vm, func() {
		running = vm.Runtime.PowerState == types.VirtualMachinePowerStatePoweredOn
		now := demandOf(vm)
		wanted := now
		wanted.cpu, _ = allocation(mergeAllocation(vm.Config.CpuAllocation, spec.CpuAllocation))
		if locked := vm.Config.MemoryReservationLockedToMax; locked == nil || !*locked {
			wanted.memory, _ = allocation(mergeAllocation(vm.Config.MemoryAllocation, spec.MemoryAllocation))
		}
		extra = wanted.minus(now)
	})
	if !running || extra.cpu <= 0 && extra.memory <= 0 {
		return nil
	}
	_, fault := s.admit(ctx, vm.Self, extra)
	return fault
}

// checkReconfig is called with the VM locked.
func checkReconfig(vm *simulator.VirtualMachine, spec *types.VirtualMachineConfigSpec) types.BaseMethodFault {
	if spec.ChangeVersion != "" && spec.ChangeVersion != vm.Config.ChangeVersion {
		return &types.ConcurrentAccess{}
	}
	enabled := func(b *bool) bool { return b != nil && *b }
	if vm.Runtime.PowerState == types.VirtualMachinePowerStatePoweredOn {
		if spec.NumCPUs != 0 && spec.NumCPUs != vm.Config.Hardware.NumCPU && !enabled(vm.Config.CpuHotAddEnabled) {
			return &types.CpuHotPlugNotSupported{}
		}
		if spec.MemoryMB != 0 && spec.MemoryMB != int64(vm.Config.Hardware.MemoryMB) && !enabled(vm.Config.MemoryHotAddEnabled) {
			return &types.MemoryHotPlugNotSupported{}
		}
	}
	return checkDisks(vm.Config.Hardware.Device, spec.DeviceChange)
}

// adjust prepares a spec for the library; the VM is locked.
func adjust(ctx *simulator.Context, vm *simulator.VirtualMachine, spec *types.VirtualMachineConfigSpec) {
	spec.ExtraConfig = withoutVoid(vm.Config.ExtraConfig, spec.ExtraConfig)
	spec.DeviceChange = completed(vm.Config.Hardware.Device, spec.DeviceChange)
	if spec.CpuAllocation != nil {
		spec.CpuAllocation = mergeAllocation(vm.Config.CpuAllocation, spec.CpuAllocation)
	}
	if spec.MemoryAllocation != nil {
		spec.MemoryAllocation = mergeAllocation(vm.Config.MemoryAllocation, spec.MemoryAllocation)
	}
	if spec.VAppConfigRemoved != nil && *spec.VAppConfigRemoved {
		ctx.Update(vm, []types.PropertyChange{change("config.vAppConfig", nil)})
	}
}

// createVM refuses a name that the folder has already, which the library does not.
func (s *Sim) createVM(ctx *simulator.Context, _ *call, body types.AnyType) soap.HasFault {
	req := body.(*types.CreateVM_Task)
	if req.Config.Name == "" {
		return s.invoke(ctx, req.This, "CreateVM_Task", body)
	}
	host, fault := s.reachable(ctx, req.Pool, req.Host, req.Config.Files)
	if fault != nil {
		return faultBody(faultText(fault), fault)
	}
	req.Host = host
	release, fault := s.claimName(req.This, req.Config.Name)
	if fault != nil {
		return &methods.CreateVM_TaskBody{Res: &types.CreateVM_TaskResponse{
			Returnval: s.failedTask(req.This, "CreateVM_Task", fault),
		}}
	}
	uuid, releaseUUID := s.claimInstanceUUID(req.Config.InstanceUuid, ref{})
	req.Config.InstanceUuid = uuid
	if req.Config.Uuid == "" {
		req.Config.Uuid = newUUID()
	}
	return s.inTask(&call{name: "CreateVM_Task", this: req.This}, func() (types.AnyType, types.BaseMethodFault) {
		defer release()
		defer releaseUUID()
		return s.writing(s.fresh(), req.This, "CreateVM_Task", body)
	})
}

// importVApp refuses a name that the folder has already: an OVF deployment comes to this.
func (s *Sim) importVApp(ctx *simulator.Context, _ *call, body types.AnyType) soap.HasFault {
	req := body.(*types.ImportVApp)
	if spec, ok := req.Spec.(*types.VirtualMachineImportSpec); ok && req.Folder != nil {
		if holder, taken := s.childNamed(*req.Folder, spec.ConfigSpec.Name); taken {
			fault := &types.DuplicateName{Name: spec.ConfigSpec.Name, Object: holder}
			return faultBody(faultText(fault), fault)
		}
		host, fault := s.reachable(ctx, req.This, req.Host, spec.ConfigSpec.Files)
		if fault != nil {
			return faultBody(faultText(fault), fault)
		}
		req.Host = host
	}
	return s.invoke(ctx, req.This, "ImportVApp", body)
}

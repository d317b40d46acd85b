package main

import (
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// computeMethods are those that make, change and run VMs.
func (s *Sim) computeMethods() map[string]override {
	return map[string]override{
		"AcquireTicket":     s.acquireTicket,
		"CloneVM_Task":      s.cloneVM,
		"CreateVM_Task":     s.createVM,
		"CustomizeVM_Task":  s.customize,
		"ImportVApp":        s.importVApp,
		"PowerOffVM_Task":   s.powerOff,
		"PowerOnVM_Task":    s.powerOn,
		"PromoteDisks_Task": s.promoteDisks,
		"RebootGuest":       s.rebootGuest,
		"ReconfigVM_Task":   s.reconfigVM,
		"ResetVM_Task":      s.reset,
		"ShutdownGuest":     s.shutdownGuest,
		"StandbyGuest":      s.standbyGuest,
		"SuspendVM_Task":    s.suspend,
	}
}

// powerOn admits the VM's reservations first, which the library does not look at.
func (s *Sim) powerOn(ctx *simulator.Context, _ *call, body types.AnyType) soap.HasFault {
	req := body.(*types.PowerOnVM_Task)
	answer := func(task ref) soap.HasFault {
		return &methods.PowerOnVM_TaskBody{Res: &types.PowerOnVM_TaskResponse{Returnval: task}}
	}
	vm, ok := s.vmOf(ctx, req.This.Value)
	if !ok {
		return s.invoke(ctx, req.This, "PowerOnVM_Task", body)
	}
	s.admission.Lock()
	defer s.admission.Unlock()
	host, fault := s.admit(ctx, req.This, demand{})
	if fault != nil {
		return answer(s.failedTask(req.This, "PowerOnVM_Task", fault))
	}
	s.admitted.set(req.This, true)
	s.moveTo(ctx, vm, host)
	res := s.invoke(ctx, req.This, "PowerOnVM_Task", body)
	go func() {
		_, _ = s.follow(res)
		s.admitted.set(req.This, false)
	}()
	return res
}

// moveTo puts a VM that is off onto another host.
func (s *Sim) moveTo(ctx *simulator.Context, vm *simulator.VirtualMachine, host ref) {
	var old ref
	ctx.WithLock(vm, func() {
		if vm.Runtime.Host != nil {
			old = *vm.Runtime.Host
		}
		if old != host && vm.Runtime.PowerState == types.VirtualMachinePowerStatePoweredOff {
			ctx.Update(vm, []types.PropertyChange{
				change("runtime.host", &host), change("summary.runtime.host", &host),
			})
		}
	})
	if old == host {
		return
	}
	if from, ok := ctx.Map.Get(old).(*simulator.HostSystem); ok {
		ctx.Map.RemoveReference(ctx, from, &from.Vm, vm.Self)
	}
	if to, ok := ctx.Map.Get(host).(*simulator.HostSystem); ok {
		ctx.Map.AddReference(ctx, to, &to.Vm, vm.Self)
	}
}

// powerOff takes the guest's facts away with the guest; the library keeps the address.
func (s *Sim) powerOff(ctx *simulator.Context, _ *call, body types.AnyType) soap.HasFault {
	return s.withoutGuest(ctx, body.(*types.PowerOffVM_Task).This, "PowerOffVM_Task", body)
}

func (s *Sim) suspend(ctx *simulator.Context, _ *call, body types.AnyType) soap.HasFault {
	return s.withoutGuest(ctx, body.(*types.SuspendVM_Task).This, "SuspendVM_Task", body)
}

// shutdownGuest needs Tools, as any request to a guest does.
func (s *Sim) shutdownGuest(ctx *simulator.Context, _ *call, body types.AnyType) soap.HasFault {
	req := body.(*types.ShutdownGuest)
	if fault := s.needsTools(ctx, req.This); fault != nil {
		return faultBody("", fault)
	}
	if s.options.RealGuests {
		s.hub.askedToShutDown(req.This)
		return &methods.ShutdownGuestBody{Res: &types.ShutdownGuestResponse{}}
	}
	return s.withoutGuest(ctx, req.This, "ShutdownGuest", body)
}

// standbyGuest needs Tools, too.
func (s *Sim) standbyGuest(ctx *simulator.Context, _ *call, body types.AnyType) soap.HasFault {
	req := body.(*types.StandbyGuest)
	if fault := s.needsTools(ctx, req.This); fault != nil {
		return faultBody("", fault)
	}
	return s.withoutGuest(ctx, req.This, "StandbyGuest", body)
}

func (s *Sim) withoutGuest(ctx *simulator.Context, this ref, method string, body types.AnyType) (res soap.HasFault) {
	vm, ok := s.vmOf(ctx, this.Value)
	if !ok {
		return s.invoke(ctx, this, method, body)
	}
	ctx.WithLock(vm, func() {
		if vm.Runtime.PowerState == types.VirtualMachinePowerStatePoweredOn {
			ctx.Update(vm, guestFacts{}.changes(ctx, vm))
		}
		res = s.invoke(ctx, this, method, body)
	})
	return res
}

// reset boots the guest again. The VM stays on all the while, which the library's does not.
func (s *Sim) reset(ctx *simulator.Context, _ *call, body types.AnyType) soap.HasFault {
	req := body.(*types.ResetVM_Task)
	task := s.runTask(req.This, "ResetVM_Task", func() (types.AnyType, types.BaseMethodFault) {
		return nil, s.bootAgain(req.This)
	})
	return &methods.ResetVM_TaskBody{Res: &types.ResetVM_TaskResponse{Returnval: task}}
}

func (s *Sim) rebootGuest(ctx *simulator.Context, _ *call, body types.AnyType) soap.HasFault {
	req := body.(*types.RebootGuest)
	if fault := s.needsTools(ctx, req.This); fault != nil {
		return faultBody("", fault)
	}
	if fault := s.bootAgain(req.This); fault != nil {
		return faultBody("", fault)
	}
	return &methods.RebootGuestBody{Res: &types.RebootGuestResponse{}}
}

func (s *Sim) bootAgain(this ref) (fault types.BaseMethodFault) {
	ctx := s.fresh()
	vm, ok := s.vmOf(ctx, this.Value)
	if !ok {
		return &types.ManagedObjectNotFound{Obj: this}
	}
	ctx.WithLock(vm, func() {
		if vm.Runtime.PowerState != types.VirtualMachinePowerStatePoweredOn {
			fault = wrongPowerState(vm)
			return
		}
		ctx.Update(vm, append(guestFacts{}.changes(ctx, vm),
			change("runtime.bootTime", s.clock.now()), change("summary.runtime.bootTime", s.clock.now())))
		s.hub.booted(this)
	})
	return fault
}

func (s *Sim) needsTools(ctx *simulator.Context, this ref) (fault types.BaseMethodFault) {
	vm, ok := s.vmOf(ctx, this.Value)
	if !ok {
		return &types.ManagedObjectNotFound{Obj: this}
	}
	ctx.WithLock(vm, func() {
		switch {
		case vm.Runtime.PowerState != types.VirtualMachinePowerStatePoweredOn:
			fault = wrongPowerState(vm)
		case !toolsRunning(vm):
			fault = &types.ToolsUnavailable{}
		}
	})
	return fault
}

func wrongPowerState(vm *simulator.VirtualMachine) types.BaseMethodFault {
	return &types.InvalidPowerState{
		RequestedState: types.VirtualMachinePowerStatePoweredOn, ExistingState: vm.Runtime.PowerState,
	}
}

// Package compute makes, changes and runs VMs.
package compute

import (
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/core"
	"layercake.invalid/sim/vcsim/inventory"
	"layercake.invalid/sim/vcsim/storage"
	"layercake.invalid/sim/vcsim/vim"
)

// Compute is the VMs: how they are made, changed and run.
type Compute struct {
	*core.VCenter
	storage   *storage.Storage
	inventory *inventory.Inventory

	Images Images
}

// New gives the VMs of an inventory.
func New(vc *core.VCenter, s *storage.Storage, inv *inventory.Inventory) *Compute {
	return &Compute{VCenter: vc, storage: s, inventory: inv}
}

// Methods are those that make, change and run VMs.
func (cp *Compute) Methods() map[string]core.Override {
	return map[string]core.Override{
		"AcquireTicket":     cp.acquireTicket,
		"CloneVM_Task":      cp.cloneVM,
		"CreateImportSpec":  cp.createImportSpec,
		"CreateVM_Task":     cp.createVM,
		"CustomizeVM_Task":  cp.customize,
		"ImportVApp":        cp.importVApp,
		"PowerOffVM_Task":   cp.PowerOff,
		"PowerOnVM_Task":    cp.powerOn,
		"PromoteDisks_Task": cp.promoteDisks,
		"RebootGuest":       cp.rebootGuest,
		"ReconfigVM_Task":   cp.ReconfigVM,
		"ResetVM_Task":      cp.reset,
		"ShutdownGuest":     cp.shutdownGuest,
		"StandbyGuest":      cp.standbyGuest,
		"SuspendVM_Task":    cp.suspend,
	}
}

// powerOn admits the VM's reservations first, which the library does not look at.
func (cp *Compute) powerOn(ctx *simulator.Context, _ *core.Call, body types.AnyType) soap.HasFault {
	req := body.(*types.PowerOnVM_Task)
	vm, ok := cp.VMOf(ctx, req.This.Value)
	if !ok {
		return cp.Invoke(ctx, req.This, "PowerOnVM_Task", body)
	}
	cp.inventory.Admission.Lock()
	defer cp.inventory.Admission.Unlock()
	config := vim.VMConfig(ctx, vm)
	if fault := checkPowerOn(&config, cp.inventory.Threads(ctx, req.This)); fault != nil {
		return cp.FailedTask(req.This, "PowerOnVM_Task", fault)
	}
	host, fault := cp.inventory.Admit(ctx, req.This, core.Demand{})
	if fault != nil {
		return cp.FailedTask(req.This, "PowerOnVM_Task", fault)
	}
	cp.inventory.Admitted.Set(req.This, true)
	cp.moveTo(ctx, vm, host)
	res := cp.Invoke(ctx, req.This, "PowerOnVM_Task", body)
	go func() {
		_, _ = cp.Follow(res)
		cp.inventory.Admitted.Set(req.This, false)
	}()
	return res
}

// moveTo puts a VM that is off onto another host.
func (cp *Compute) moveTo(ctx *simulator.Context, vm *simulator.VirtualMachine, host vim.Ref) {
	var old vim.Ref
	ctx.WithLock(vm, func() {
		if vm.Runtime.Host != nil {
			old = *vm.Runtime.Host
		}
		if old != host && vm.Runtime.PowerState == types.VirtualMachinePowerStatePoweredOff {
			ctx.Update(vm, []types.PropertyChange{
				vim.Change("runtime.host", &host), vim.Change("summary.runtime.host", &host),
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

// PowerOff takes the guest's facts away with the guest; the library keeps the address.
func (cp *Compute) PowerOff(ctx *simulator.Context, _ *core.Call, body types.AnyType) soap.HasFault {
	return cp.withoutGuest(ctx, body.(*types.PowerOffVM_Task).This, "PowerOffVM_Task", body)
}

func (cp *Compute) suspend(ctx *simulator.Context, _ *core.Call, body types.AnyType) soap.HasFault {
	return cp.withoutGuest(ctx, body.(*types.SuspendVM_Task).This, "SuspendVM_Task", body)
}

// shutdownGuest needs Tools, as any request to a guest does.
func (cp *Compute) shutdownGuest(ctx *simulator.Context, _ *core.Call, body types.AnyType) soap.HasFault {
	req := body.(*types.ShutdownGuest)
	if fault := cp.needsTools(ctx, req.This); fault != nil {
		return vim.FaultBody("", fault)
	}
	if cp.Options.RealGuests {
		cp.Hub.AskedToShutDown(req.This)
		return &methods.ShutdownGuestBody{Res: &types.ShutdownGuestResponse{}}
	}
	return cp.withoutGuest(ctx, req.This, "ShutdownGuest", body)
}

// standbyGuest needs Tools, too.
func (cp *Compute) standbyGuest(ctx *simulator.Context, _ *core.Call, body types.AnyType) soap.HasFault {
	req := body.(*types.StandbyGuest)
	if fault := cp.needsTools(ctx, req.This); fault != nil {
		return vim.FaultBody("", fault)
	}
	return cp.withoutGuest(ctx, req.This, "StandbyGuest", body)
}

func (cp *Compute) withoutGuest(ctx *simulator.Context, this vim.Ref, method string, body types.AnyType) (res soap.HasFault) {
	vm, ok := cp.VMOf(ctx, this.Value)
	if !ok {
		return cp.Invoke(ctx, this, method, body)
	}
	ctx.WithLock(vm, func() {
		if vm.Runtime.PowerState == types.VirtualMachinePowerStatePoweredOn {
			ctx.Update(vm, GuestFacts{}.Changes(ctx, vm))
		}
		res = cp.Invoke(ctx, this, method, body)
	})
	return res
}

// reset boots the guest again. The VM stays on all the while, which the library's does not.
func (cp *Compute) reset(ctx *simulator.Context, _ *core.Call, body types.AnyType) soap.HasFault {
	req := body.(*types.ResetVM_Task)
	return cp.InTask(req.This, "ResetVM_Task", func() (types.AnyType, types.BaseMethodFault) {
		return nil, cp.bootAgain(req.This)
	})
}

func (cp *Compute) rebootGuest(ctx *simulator.Context, _ *core.Call, body types.AnyType) soap.HasFault {
	req := body.(*types.RebootGuest)
	if fault := cp.needsTools(ctx, req.This); fault != nil {
		return vim.FaultBody("", fault)
	}
	if fault := cp.bootAgain(req.This); fault != nil {
		return vim.FaultBody("", fault)
	}
	return &methods.RebootGuestBody{Res: &types.RebootGuestResponse{}}
}

func (cp *Compute) bootAgain(this vim.Ref) (fault types.BaseMethodFault) {
	ctx := cp.Fresh()
	vm, ok := cp.VMOf(ctx, this.Value)
	if !ok {
		return &types.ManagedObjectNotFound{Obj: this}
	}
	ctx.WithLock(vm, func() {
		if vm.Runtime.PowerState != types.VirtualMachinePowerStatePoweredOn {
			fault = wrongPowerState(vm)
			return
		}
		ctx.Update(vm, append(GuestFacts{}.Changes(ctx, vm),
			vim.Change("runtime.bootTime", cp.Clock.Now()), vim.Change("summary.runtime.bootTime", cp.Clock.Now())))
		cp.Hub.Booted(this)
	})
	return fault
}

func (cp *Compute) needsTools(ctx *simulator.Context, this vim.Ref) (fault types.BaseMethodFault) {
	vm, ok := cp.VMOf(ctx, this.Value)
	if !ok {
		return &types.ManagedObjectNotFound{Obj: this}
	}
	ctx.WithLock(vm, func() {
		switch {
		case vm.Runtime.PowerState != types.VirtualMachinePowerStatePoweredOn:
			fault = wrongPowerState(vm)
		case !ToolsRunning(vm):
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

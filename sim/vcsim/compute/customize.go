package compute

import (
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/core"
	"layercake.invalid/sim/vcsim/vim"
)

// customize counts the VM's adapters, as vCenter does; the library counts those that its last guest reported.
func (cp *Compute) customize(ctx *simulator.Context, _ *core.Call, body types.AnyType) soap.HasFault {
	req := body.(*types.CustomizeVM_Task)
	if vm, ok := cp.VMOf(ctx, req.This.Value); ok {
		ctx.WithLock(vm, func() {
			if vm.Runtime.PowerState == types.VirtualMachinePowerStatePoweredOff {
				ctx.Update(vm, []types.PropertyChange{vim.Change("guest.net", GuestFacts{}.adapters(ctx, vm))})
			}
		})
	}
	return cp.Invoke(ctx, req.This, "CustomizeVM_Task", body)
}

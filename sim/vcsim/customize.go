package main

import (
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// customize counts the VM's adapters, as vCenter does; the library counts those that its last guest reported.
func (s *Sim) customize(ctx *simulator.Context, _ *call, body types.AnyType) soap.HasFault {
	req := body.(*types.CustomizeVM_Task)
	if vm, ok := s.vmOf(ctx, req.This.Value); ok {
		ctx.WithLock(vm, func() {
			if vm.Runtime.PowerState == types.VirtualMachinePowerStatePoweredOff {
				ctx.Update(vm, []types.PropertyChange{change("guest.net", guestFacts{}.adapters(ctx, vm))})
			}
		})
	}
	return s.invoke(ctx, req.This, "CustomizeVM_Task", body)
}

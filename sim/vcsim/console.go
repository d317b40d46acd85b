package main

import (
	"crypto/rand"
	"fmt"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// acquireTicket gives a ticket to a VM's console, which the library has not. Nothing listens behind it.
func (s *Sim) acquireTicket(ctx *simulator.Context, _ *call, body types.AnyType) soap.HasFault {
	req := body.(*types.AcquireTicket)
	vm, ok := s.vmOf(ctx, req.This.Value)
	if !ok {
		return faultBody("The object has already been deleted or has not been completely created",
			&types.ManagedObjectNotFound{Obj: req.This})
	}
	if req.TicketType != string(types.VirtualMachineTicketTypeWebmks) {
		return faultBody("A specified parameter was not correct: ticketType", &types.InvalidArgument{InvalidProperty: "ticketType"})
	}
	var state types.VirtualMachinePowerState
	var on ref
	ctx.WithLock(vm, func() { state, on = vm.Runtime.PowerState, *vm.Runtime.Host })
	if state != types.VirtualMachinePowerStatePoweredOn {
		return faultBody("The attempted operation cannot be performed in the current state", &types.InvalidPowerState{
			RequestedState: types.VirtualMachinePowerStatePoweredOn, ExistingState: state,
		})
	}
	host, port, ticket := ctx.Map.Get(on).(*simulator.HostSystem).Name, int32(443), rand.Text()
	return &methods.AcquireTicketBody{Res: &types.AcquireTicketResponse{Returnval: types.VirtualMachineTicket{
		Ticket: ticket, CfgFile: "", Host: host, Port: port,
		Url: fmt.Sprintf("wss://%s:%d/ticket/%s", host, port, ticket),
	}}}
}

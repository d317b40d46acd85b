package compute

import (
	"crypto/rand"
	"fmt"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/core"
	"layercake.invalid/sim/vcsim/vim"
)

// acquireTicket gives a ticket to a VM's console, which the library has not. Nothing listens behind it.
func (cp *Compute) acquireTicket(ctx *simulator.Context, _ *core.Call, body types.AnyType) soap.HasFault {
	req := body.(*types.AcquireTicket)
	vm, ok := cp.VMOf(ctx, req.This.Value)
	if !ok {
		return vim.Gone(req.This)
	}
	if req.TicketType != string(types.VirtualMachineTicketTypeWebmks) {
		return vim.FaultBody("A specified parameter was not correct: ticketType", &types.InvalidArgument{InvalidProperty: "ticketType"})
	}
	var state types.VirtualMachinePowerState
	var on vim.Ref
	ctx.WithLock(vm, func() { state, on = vm.Runtime.PowerState, *vm.Runtime.Host })
	if state != types.VirtualMachinePowerStatePoweredOn {
		return vim.FaultBody("The attempted operation cannot be performed in the current state", &types.InvalidPowerState{
			RequestedState: types.VirtualMachinePowerStatePoweredOn, ExistingState: state,
		})
	}
	host, port, ticket := ctx.Map.Get(on).(*simulator.HostSystem).Name, int32(443), rand.Text()
	return &methods.AcquireTicketBody{Res: &types.AcquireTicketResponse{Returnval: types.VirtualMachineTicket{
		Ticket: ticket, CfgFile: "", Host: host, Port: port,
		Url: fmt.Sprintf("wss://%s:%d/ticket/%s", host, port, ticket),
	}}}
}

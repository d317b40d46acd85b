package inventory

import (
	"strings"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/core"
	"layercake.invalid/sim/vcsim/vim"
)

// findByUUID stands in for the library's search, which reads every VM without its lock.
func (inv *Inventory) findByUUID(ctx *simulator.Context, _ *core.Call, body types.AnyType) soap.HasFault {
	req := body.(*types.FindByUuid)
	if !req.VmSearch {
		return inv.Invoke(ctx, req.This, "FindByUuid", body)
	}
	found := inv.Machines.Find(func(r core.Row) bool {
		if inv.outages.Of(vim.Ref{Type: "VirtualMachine", Value: r.MoID}).Unset {
			return false // what vCenter cannot read it cannot find
		}
		if req.InstanceUuid != nil && *req.InstanceUuid {
			return strings.EqualFold(r.InstanceUUID, req.Uuid)
		}
		return strings.EqualFold(r.UUID, req.Uuid)
	})
	res := &types.FindByUuidResponse{}
	if len(found) != 0 {
		res.Returnval = &found[0]
	}
	return &methods.FindByUuidBody{Res: res}
}

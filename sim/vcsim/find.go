package main

import (
	"strings"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// findByUUID stands in for the library's search, which reads every VM without its lock.
func (s *Sim) findByUUID(ctx *simulator.Context, _ *call, body types.AnyType) soap.HasFault {
	req := body.(*types.FindByUuid)
	if !req.VmSearch {
		return s.invoke(ctx, req.This, "FindByUuid", body)
	}
	found := s.machines.find(func(r row) bool {
		if s.outages.of(ref{Type: "VirtualMachine", Value: r.MoID}).unset {
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

package compute

import (
	"slices"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/core"
	"layercake.invalid/sim/vcsim/vim"
)

// promoteDisks makes linked disks the VM's own: those that the call names, or all where it names none. The library does
// nothing where none is named, sleeps a second for each GiB, and leaves config.ChangeVersion as it was.
func (cp *Compute) promoteDisks(_ *simulator.Context, k *core.Call, body types.AnyType) soap.HasFault {
	req := body.(*types.PromoteDisks_Task)
	return cp.InTask(k.This, k.Name, func() (types.AnyType, types.BaseMethodFault) {
		ctx := cp.Fresh()
		vm, ok := cp.VMOf(ctx, req.This.Value)
		if !ok {
			return nil, &types.ManagedObjectNotFound{Obj: req.This}
		}
		var fault types.BaseMethodFault
		ctx.WithLock(vm, func() { fault = promoted(ctx, vm, req) })
		return nil, fault
	})
}

// promoted is called with the VM's lock held.
func promoted(ctx *simulator.Context, vm *simulator.VirtualMachine, req *types.PromoteDisks_Task) types.BaseMethodFault {
	named := func(key int32) bool {
		return len(req.Disks) == 0 || slices.ContainsFunc(req.Disks, func(d types.VirtualDisk) bool { return d.Key == key })
	}
	devices := slices.Clone(vm.Config.Hardware.Device)
	found := 0
	for i, device := range devices {
		disk, ok := device.(*types.VirtualDisk)
		if !ok || !named(disk.Key) {
			continue
		}
		found++
		if backing, ok := disk.Backing.(*types.VirtualDiskFlatVer2BackingInfo); ok && req.Unlink {
			own, whole := *disk, *backing
			whole.Parent = nil
			own.Backing = &whole
			devices[i] = &own
		}
	}
	if found < len(req.Disks) {
		return &types.InvalidArgument{InvalidProperty: "disks"}
	}
	ctx.Update(vm, []types.PropertyChange{
		vim.Change("config.hardware.device", devices),
		vim.Change("config.changeVersion", vim.ChangeVersion()),
	})
	return nil
}

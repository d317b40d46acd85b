package vim

import (
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// FilesOf are the files of the disks of a VM, whose lock is held, and the files that they rest on.
func FilesOf(vm *simulator.VirtualMachine) (disks, bases []string) {
	for _, device := range vm.Config.Hardware.Device {
		disk, ok := device.(*types.VirtualDisk)
		if !ok {
			continue
		}
		if backing, ok := disk.Backing.(*types.VirtualDiskFlatVer2BackingInfo); ok {
			disks = append(disks, backing.FileName)
		}
		for base := LinkedDisk(device); base != nil; base = base.Parent {
			bases = append(bases, base.FileName)
		}
	}
	return disks, bases
}

// LinkedDisk tells whether the device is a disk on another VM's disk, whose size is that disk's.
func LinkedDisk(device types.BaseVirtualDevice) (parent *types.VirtualDiskFlatVer2BackingInfo) {
	disk, ok := device.(*types.VirtualDisk)
	if !ok {
		return nil
	}
	backing, ok := disk.Backing.(*types.VirtualDiskFlatVer2BackingInfo)
	if !ok {
		return nil
	}
	return backing.Parent
}

// VMConfig copies a VM's configuration and what else a clone needs of it.
func VMConfig(ctx *simulator.Context, vm *simulator.VirtualMachine) (config types.VirtualMachineConfigInfo) {
	ctx.WithLock(vm, func() { config = types.MustDeepCopy(*vm.Config) })
	return config
}

// Allocation gives reservation and limit; -1 is no limit.
func Allocation(info *types.ResourceAllocationInfo) (reservation, limit int64) {
	limit = -1
	if info == nil {
		return 0, limit
	}
	if info.Reservation != nil {
		reservation = *info.Reservation
	}
	if info.Limit != nil {
		limit = *info.Limit
	}
	return reservation, limit
}

// NetworkName is the name of the network that an adapter is plugged into.
func NetworkName(ctx *simulator.Context, adapter *types.VirtualEthernetCard) string {
	switch backing := adapter.Backing.(type) {
	case *types.VirtualEthernetCardNetworkBackingInfo:
		return backing.DeviceName
	case *types.VirtualEthernetCardDistributedVirtualPortBackingInfo:
		group := Ref{Type: "DistributedVirtualPortgroup", Value: backing.Port.PortgroupKey}
		if pg, ok := ctx.Map.Get(group).(*simulator.DistributedVirtualPortgroup); ok {
			return pg.Name
		}
	}
	return ""
}

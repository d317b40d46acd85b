package vim

import (
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// Disks are the disks among devices.
func Disks(devices []types.BaseVirtualDevice) (disks []*types.VirtualDisk) {
	for _, device := range devices {
		if disk, ok := device.(*types.VirtualDisk); ok {
			disks = append(disks, disk)
		}
	}
	return disks
}

// Adapters are the network adapters among devices.
func Adapters(devices []types.BaseVirtualDevice) (adapters []*types.VirtualEthernetCard) {
	for _, device := range devices {
		if adapter, ok := device.(types.BaseVirtualEthernetCard); ok {
			adapters = append(adapters, adapter.GetVirtualEthernetCard())
		}
	}
	return adapters
}

// FilesOf are the files of the disks of a VM, whose lock is held, and the files that they rest on.
func FilesOf(vm *simulator.VirtualMachine) (disks, bases []string) {
	for _, disk := range Disks(vm.Config.Hardware.Device) {
		if backing, ok := disk.Backing.(*types.VirtualDiskFlatVer2BackingInfo); ok {
			disks = append(disks, backing.FileName)
		}
		for base := LinkedDisk(disk); base != nil; base = base.Parent {
			bases = append(bases, base.FileName)
		}
	}
	return disks, bases
}

// LinkedDisk is the other VM's disk that a disk rests on, whose size is that disk's.
func LinkedDisk(disk *types.VirtualDisk) (parent *types.VirtualDiskFlatVer2BackingInfo) {
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

// SetIfGiven sets a field to a value that is not zero.
func SetIfGiven[T comparable](field *T, value T) {
	var zero T
	if value != zero {
		*field = value
	}
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

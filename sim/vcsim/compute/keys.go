package compute

import (
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/vim"
)

// Keys of devices as vCenter gives them. A client finds the first disk of an image by 2000, and the first adapter by 4000.
const (
	firstSCSI    = 1000
	firstDisk    = 2000
	unitsOfSCSI  = 16
	firstAdapter = 4000
)

// number gives new devices the keys that vCenter gives them; the library counts up from 201. The caller holds the lock of the VM
// whose devices these are.
func number(devices []types.BaseVirtualDevice, changes []types.BaseVirtualDeviceConfigSpec) {
	all := append([]types.BaseVirtualDevice{}, devices...)
	given := map[int32]int32{}
	for _, controllers := range []bool{true, false} {
		for _, c := range changes {
			change := c.GetVirtualDeviceConfigSpec()
			if change.Operation != types.VirtualDeviceConfigSpecOperationAdd || change.Device == nil {
				continue
			}
			if _, is := change.Device.(types.BaseVirtualController); is != controllers {
				continue
			}
			device := change.Device.GetVirtualDevice()
			if key, ok := given[device.ControllerKey]; ok {
				device.ControllerKey = key
			}
			if key := keyOf(all, change.Device); device.Key <= 0 && key != 0 && deviceByKey(all, key) == nil {
				if device.Key < 0 {
					given[device.Key] = key
				}
				plugIn(all, device.ControllerKey, device.Key, key)
				device.Key = key
			}
			all = append(all, change.Device)
		}
	}
}

// plugIn has a controller list the new key of a device.
func plugIn(devices []types.BaseVirtualDevice, controller, old, key int32) {
	found, ok := deviceByKey(devices, controller).(types.BaseVirtualController)
	if !ok {
		return
	}
	plugged := found.GetVirtualController().Device
	for i := range plugged {
		if plugged[i] == old {
			plugged[i] = key
		}
	}
}

// keyOf is the key that a new device has by its place, or 0.
func keyOf(devices []types.BaseVirtualDevice, device types.BaseVirtualDevice) int32 {
	switch d := device.(type) {
	case types.BaseVirtualSCSIController:
		return firstSCSI + d.GetVirtualSCSIController().BusNumber
	case types.BaseVirtualEthernetCard:
		key := int32(firstAdapter)
		for deviceByKey(devices, key) != nil {
			key++
		}
		return key
	case *types.VirtualDisk:
		controller, ok := deviceByKey(devices, d.ControllerKey).(types.BaseVirtualSCSIController)
		if ok && d.UnitNumber != nil {
			return firstDisk + unitsOfSCSI*controller.GetVirtualSCSIController().BusNumber + *d.UnitNumber
		}
	}
	return 0
}

// ownFiles leaves each disk that is edited in its own file: a clone's edits name the files of its source. An edit of a VM may not name
// another file.
func ownFiles(devices []types.BaseVirtualDevice, changes []types.BaseVirtualDeviceConfigSpec) []types.BaseVirtualDeviceConfigSpec {
	changes = append([]types.BaseVirtualDeviceConfigSpec{}, changes...)
	for i, c := range changes {
		change := *c.GetVirtualDeviceConfigSpec()
		if _, ok := change.Device.(*types.VirtualDisk); !ok || change.Operation != types.VirtualDeviceConfigSpecOperationEdit {
			continue
		}
		if present, ok := deviceByKey(devices, change.Device.GetVirtualDevice().Key).(*types.VirtualDisk); ok {
			change.Device = copied(change.Device)
			change.Device.GetVirtualDevice().Backing = present.Backing
			changes[i] = &change
		}
	}
	return changes
}

// checkFiles refuses to give a disk another file.
func checkFiles(devices []types.BaseVirtualDevice, changes []types.BaseVirtualDeviceConfigSpec) types.BaseMethodFault {
	for i, c := range changes {
		change := c.GetVirtualDeviceConfigSpec()
		edit, ok := change.Device.(*types.VirtualDisk)
		if !ok || change.Operation != types.VirtualDeviceConfigSpecOperationEdit {
			continue
		}
		if present, ok := deviceByKey(devices, edit.Key).(*types.VirtualDisk); ok && fileOf(edit) != "" && fileOf(edit) != fileOf(present) {
			return &types.InvalidDeviceSpec{DeviceIndex: int32(i)}
		}
	}
	return nil
}

func fileOf(disk *types.VirtualDisk) string {
	if backing, ok := disk.Backing.(types.BaseVirtualDeviceFileBackingInfo); ok {
		return backing.GetVirtualDeviceFileBackingInfo().FileName
	}
	return ""
}

// checkSnapshots refuses to grow or to remove a disk that a snapshot contains: all but independent ones.
func checkSnapshots(devices []types.BaseVirtualDevice, changes []types.BaseVirtualDeviceConfigSpec) types.BaseMethodFault {
	for _, c := range changes {
		change := c.GetVirtualDeviceConfigSpec()
		wanted, ok := change.Device.(*types.VirtualDisk)
		if !ok {
			continue
		}
		for _, disk := range vim.Disks(devices) {
			if disk.Key != wanted.Key || isIndependent(disk) {
				continue
			}
			switch change.Operation {
			case types.VirtualDeviceConfigSpecOperationRemove:
				return &types.InvalidState{}
			case types.VirtualDeviceConfigSpecOperationEdit:
				if capacityOf(wanted) > capacityOf(disk) {
					return &types.InvalidDeviceOperation{}
				}
			}
		}
	}
	return nil
}

func isIndependent(disk *types.VirtualDisk) bool {
	backing, ok := disk.Backing.(*types.VirtualDiskFlatVer2BackingInfo)
	return ok && (backing.DiskMode == string(types.VirtualDiskModeIndependent_persistent) ||
		backing.DiskMode == string(types.VirtualDiskModeIndependent_nonpersistent))
}

func capacityOf(disk *types.VirtualDisk) int64 {
	return max(disk.CapacityInBytes, disk.CapacityInKB<<10)
}

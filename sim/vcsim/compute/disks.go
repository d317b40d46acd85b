package compute

import (
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/vim"
)

// diskChange is a change of a disk that the VM has.
type diskChange struct {
	at              int // its place among the changes
	operation       types.VirtualDeviceConfigSpecOperation
	present, wanted *types.VirtualDisk
}

func (d diskChange) edits() bool { return d.operation == types.VirtualDeviceConfigSpecOperationEdit }

func (d diskChange) grows() bool { return d.edits() && capacityOf(d.wanted) > capacityOf(d.present) }

// diskChanges finds the changes of disks that the VM has.
func diskChanges(devices []types.BaseVirtualDevice, changes []types.BaseVirtualDeviceConfigSpec) (found []diskChange) {
	for i, c := range changes {
		change := c.GetVirtualDeviceConfigSpec()
		wanted, ok := change.Device.(*types.VirtualDisk)
		if !ok {
			continue
		}
		if present, ok := deviceByKey(devices, wanted.Key).(*types.VirtualDisk); ok {
			found = append(found, diskChange{i, change.Operation, present, wanted})
		}
	}
	return found
}

// ownFiles leaves each disk that is edited in its own file: a clone's edits name the files of its source. An edit of a VM may not name
// another file.
func ownFiles(devices []types.BaseVirtualDevice, changes []types.BaseVirtualDeviceConfigSpec) []types.BaseVirtualDeviceConfigSpec {
	changes = append([]types.BaseVirtualDeviceConfigSpec{}, changes...)
	for _, d := range diskChanges(devices, changes) {
		if d.edits() {
			change := *changes[d.at].GetVirtualDeviceConfigSpec()
			change.Device = copied(change.Device)
			change.Device.GetVirtualDevice().Backing = d.present.Backing
			changes[d.at] = &change
		}
	}
	return changes
}

// checkDisks refuses to grow a linked disk.
func checkDisks(devices []types.BaseVirtualDevice, changes []types.BaseVirtualDeviceConfigSpec) types.BaseMethodFault {
	for _, d := range diskChanges(devices, changes) {
		if d.grows() && vim.LinkedDisk(d.present) != nil {
			return &types.InvalidDeviceOperation{}
		}
	}
	return nil
}

// checkFiles refuses to give a disk another file.
func checkFiles(devices []types.BaseVirtualDevice, changes []types.BaseVirtualDeviceConfigSpec) types.BaseMethodFault {
	for _, d := range diskChanges(devices, changes) {
		if file := fileOf(d.wanted); d.edits() && file != "" && file != fileOf(d.present) {
			return &types.InvalidDeviceSpec{DeviceIndex: int32(d.at)}
		}
	}
	return nil
}

// checkSnapshots refuses to grow or to remove a disk that a snapshot contains: all but independent ones.
func checkSnapshots(devices []types.BaseVirtualDevice, changes []types.BaseVirtualDeviceConfigSpec) types.BaseMethodFault {
	for _, d := range diskChanges(devices, changes) {
		switch {
		case isIndependent(d.present):
		case d.operation == types.VirtualDeviceConfigSpecOperationRemove:
			return &types.InvalidState{}
		case d.grows():
			return &types.InvalidDeviceOperation{}
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

func isIndependent(disk *types.VirtualDisk) bool {
	backing, ok := disk.Backing.(*types.VirtualDiskFlatVer2BackingInfo)
	return ok && (backing.DiskMode == string(types.VirtualDiskModeIndependent_persistent) ||
		backing.DiskMode == string(types.VirtualDiskModeIndependent_nonpersistent))
}

func capacityOf(disk *types.VirtualDisk) int64 {
	return max(disk.CapacityInBytes, disk.CapacityInKB<<10)
}

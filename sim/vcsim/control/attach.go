package control

import (
	"net/http"
	"os"
	"path/filepath"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/vim"
)

// What somebody does who attaches a disk to a VM by its file.

// controlAttachFile gives a VM a disk behind the client's back. A file that is not there is made.
func (api *API) controlAttachFile(r *http.Request) (any, error) {
	var order struct {
		File        string `json:"file"` // as vCenter writes it: [datastore] folder/name.vmdk
		CapacityMiB int64  `json:"capacityMiB"`
		InPlaceOf   string `json:"inPlaceOf"` // last: the VM's last disk goes, with its file
	}
	ctx, vm, err := api.controlVM(r)
	if err == nil {
		err = decodeStrict(r, &order)
	}
	if err != nil {
		return nil, err
	}
	if uuid, ok := uuidOn(ctx, vm, order.File); ok {
		return map[string]string{"uuid": uuid}, nil
	}
	file := api.Storage.PathOf(order.File)
	if file == "" {
		return nil, refuse(http.StatusBadRequest, "%q is no file of a datastore", order.File)
	}
	if order.InPlaceOf != "" {
		if err := api.vacate(ctx, vm, order.InPlaceOf); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return nil, err
	}
	var operation types.VirtualDeviceConfigSpecFileOperation
	if _, err := os.Stat(file); err != nil {
		operation = types.VirtualDeviceConfigSpecFileOperationCreate
	}
	devices := object.VirtualDeviceList(vim.VMConfig(ctx, vm).Hardware.Device)
	controller, err := devices.FindDiskController("")
	if err != nil {
		return nil, refuse(http.StatusConflict, "VM %s: %v", vm.Self.Value, err)
	}
	persistent := &types.VirtualDiskFlatVer2BackingInfo{DiskMode: string(types.VirtualDiskModePersistent), Uuid: vim.NewUUID()}
	persistent.FileName = order.File
	disk := &types.VirtualDisk{CapacityInKB: order.CapacityMiB << 10}
	disk.Backing = persistent
	devices.AssignController(disk, controller)
	err = api.behind(vm.Self, "ReconfigVM_Task", &types.ReconfigVM_Task{
		This: vm.Self,
		Spec: types.VirtualMachineConfigSpec{DeviceChange: []types.BaseVirtualDeviceConfigSpec{
			&types.VirtualDeviceConfigSpec{
				Operation: types.VirtualDeviceConfigSpecOperationAdd, FileOperation: operation, Device: disk,
			},
		}},
	})
	if err != nil {
		return nil, err
	}
	return map[string]string{"uuid": persistent.Uuid}, nil
}

// vacate destroys the VM's last disk, unless it is its only one.
func (api *API) vacate(ctx *simulator.Context, vm *simulator.VirtualMachine, which string) error {
	devices := object.VirtualDeviceList(vim.VMConfig(ctx, vm).Hardware.Device)
	disks := devices.SelectByType((*types.VirtualDisk)(nil))
	if which != "last" || len(disks) < 2 {
		return refuse(http.StatusConflict, "VM %s has no disk %q to give up", vm.Self.Value, which)
	}
	return api.behind(vm.Self, "ReconfigVM_Task", &types.ReconfigVM_Task{
		This: vm.Self,
		Spec: types.VirtualMachineConfigSpec{DeviceChange: []types.BaseVirtualDeviceConfigSpec{
			&types.VirtualDeviceConfigSpec{
				Operation:     types.VirtualDeviceConfigSpecOperationRemove,
				FileOperation: types.VirtualDeviceConfigSpecFileOperationDestroy,
				Device:        disks[len(disks)-1],
			},
		}},
	})
}

// uuidOn is that of the VM's disk with that file.
func uuidOn(ctx *simulator.Context, vm *simulator.VirtualMachine, file string) (uuid string, ok bool) {
	for _, device := range vim.VMConfig(ctx, vm).Hardware.Device {
		if disk, isDisk := device.(*types.VirtualDisk); isDisk {
			if backing, ok := disk.Backing.(*types.VirtualDiskFlatVer2BackingInfo); ok && backing.FileName == file {
				return backing.Uuid, true
			}
		}
	}
	return "", false
}

// DiskSeen is a disk of a VM as an administrator sees it.
type DiskSeen struct {
	File        string `json:"file"`
	CapacityMiB int64  `json:"capacityMiB"`
}

// disksOf is called with the VM locked.
func disksOf(vm *simulator.VirtualMachine) []DiskSeen {
	disks := []DiskSeen{}
	for _, device := range vm.Config.Hardware.Device {
		disk, ok := device.(*types.VirtualDisk)
		if !ok {
			continue
		}
		seen := DiskSeen{CapacityMiB: max(disk.CapacityInBytes>>20, disk.CapacityInKB>>10)}
		if backing, ok := disk.Backing.(*types.VirtualDiskFlatVer2BackingInfo); ok {
			seen.File = backing.FileName
		}
		disks = append(disks, seen)
	}
	return disks
}

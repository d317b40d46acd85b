package main

import (
	"net/http"
	"os"
	"path/filepath"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// What somebody does who hangs a disk on a VM by its file.

// doorHang gives a VM a disk behind the client's back. A file that is not there is made.
func (s *Sim) doorHang(r *http.Request) (any, error) {
	var order struct {
		File        string `json:"file"` // as vCenter writes it: [datastore] folder/name.vmdk
		CapacityMiB int64  `json:"capacityMiB"`
	}
	ctx, vm, err := s.doorVM(r)
	if err == nil {
		err = decodeStrict(r, &order)
	}
	if err != nil {
		return nil, err
	}
	if uuid, ok := uuidOn(ctx, vm, order.File); ok {
		return map[string]string{"uuid": uuid}, nil
	}
	file := s.pathOf(order.File)
	if file == "" {
		return nil, refuse(http.StatusBadRequest, "%q is no file of a datastore", order.File)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return nil, err
	}
	var operation types.VirtualDeviceConfigSpecFileOperation
	if _, err := os.Stat(file); err != nil {
		operation = types.VirtualDeviceConfigSpecFileOperationCreate
	}
	devices := object.VirtualDeviceList(vmConfig(ctx, vm).Hardware.Device)
	controller, err := devices.FindDiskController("")
	if err != nil {
		return nil, refuse(http.StatusConflict, "VM %s: %v", vm.Self.Value, err)
	}
	persistent := &types.VirtualDiskFlatVer2BackingInfo{DiskMode: string(types.VirtualDiskModePersistent), Uuid: newUUID()}
	persistent.FileName = order.File
	disk := &types.VirtualDisk{CapacityInKB: order.CapacityMiB << 10}
	disk.Backing = persistent
	devices.AssignController(disk, controller)
	change := &types.VirtualDeviceConfigSpec{
		Operation: types.VirtualDeviceConfigSpecOperationAdd, FileOperation: operation, Device: disk,
	}
	if err := s.changeDevice(vm, change); err != nil {
		return nil, err
	}
	return map[string]string{"uuid": persistent.Uuid}, nil
}

// doorUnhang takes a disk off a VM behind the client's back. Its file stays.
func (s *Sim) doorUnhang(r *http.Request) (any, error) {
	var order struct {
		File string `json:"file"`
	}
	ctx, vm, err := s.doorVM(r)
	if err == nil {
		err = decodeStrict(r, &order)
	}
	if err != nil {
		return nil, err
	}
	disk, ok := diskOn(ctx, vm, order.File)
	if !ok {
		return nil, nil
	}
	return nil, s.changeDevice(vm, &types.VirtualDeviceConfigSpec{
		Operation: types.VirtualDeviceConfigSpecOperationRemove, Device: disk,
	})
}

func (s *Sim) changeDevice(vm *simulator.VirtualMachine, change types.BaseVirtualDeviceConfigSpec) error {
	return s.behind(vm.Self, "ReconfigVM_Task", &types.ReconfigVM_Task{
		This: vm.Self,
		Spec: types.VirtualMachineConfigSpec{DeviceChange: []types.BaseVirtualDeviceConfigSpec{change}},
	})
}

func uuidOn(ctx *simulator.Context, vm *simulator.VirtualMachine, file string) (uuid string, ok bool) {
	disk, ok := diskOn(ctx, vm, file)
	if !ok {
		return "", false
	}
	return disk.Backing.(*types.VirtualDiskFlatVer2BackingInfo).Uuid, true
}

// diskOn finds the VM's disk with that file.
func diskOn(ctx *simulator.Context, vm *simulator.VirtualMachine, file string) (*types.VirtualDisk, bool) {
	for _, device := range vmConfig(ctx, vm).Hardware.Device {
		if disk, ok := device.(*types.VirtualDisk); ok {
			if backing, ok := disk.Backing.(*types.VirtualDiskFlatVer2BackingInfo); ok && backing.FileName == file {
				return disk, true
			}
		}
	}
	return nil, false
}

// diskSeen is a disk of a VM as an administrator sees it.
type diskSeen struct {
	File        string `json:"file"`
	CapacityMiB int64  `json:"capacityMiB"`
}

// disksOf is called with the VM locked.
func disksOf(vm *simulator.VirtualMachine) []diskSeen {
	disks := []diskSeen{}
	for _, device := range vm.Config.Hardware.Device {
		disk, ok := device.(*types.VirtualDisk)
		if !ok {
			continue
		}
		seen := diskSeen{CapacityMiB: max(disk.CapacityInBytes>>20, disk.CapacityInKB>>10)}
		if backing, ok := disk.Backing.(*types.VirtualDiskFlatVer2BackingInfo); ok {
			seen.File = backing.FileName
		}
		disks = append(disks, seen)
	}
	return disks
}

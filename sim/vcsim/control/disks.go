package control

import (
	"net/http"
	"os"
	"path/filepath"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/core"
	"layercake.invalid/sim/vcsim/vim"
)

// First class disks as a storage provider makes and attaches them, and disks that an administrator attaches by their files.

// makeDisk makes a disk on the first datastore of the spec.
func (api *API) makeDisk(_ *http.Request, order diskOrder) (any, error) {
	if order.Name == "" || order.CapacityMiB < 1 {
		return nil, invalid("name and capacityMiB must be given")
	}
	ctx := api.Fresh()
	this := ctx.Map.VStorageObjectManager().Reference()
	datastore := vim.Ref{Type: "Datastore", Value: api.Found.Datastores[api.Options.Spec.Datastores[0]]}
	keep := true
	made, fault := api.Follow(api.Carry(ctx, &core.Call{Name: "CreateDisk_Task", This: this}, &types.CreateDisk_Task{
		This: this,
		Spec: types.VslmCreateSpec{
			Name: order.Name, CapacityInMB: order.CapacityMiB, KeepAfterDeleteVm: &keep,
			BackingSpec: &types.VslmCreateSpecDiskFileBackingSpec{
				VslmCreateSpecBackingSpec: types.VslmCreateSpecBackingSpec{Datastore: datastore},
			},
		},
	}))
	if fault != nil {
		return nil, conflict("disk %s: %s", order.Name, vim.FaultText(fault))
	}
	disk, ok := made.(*types.VStorageObject)
	if !ok {
		return nil, refuse(http.StatusInternalServerError, "disk %s was not made: %T", order.Name, made)
	}
	return map[string]string{"id": disk.Config.Id.Id}, nil
}

// deleteDisk deletes a disk that is attached to no VM.
func (api *API) deleteDisk(r *http.Request) (any, error) {
	ctx := api.Fresh()
	disk, ok := api.Storage.FirstClass(ctx, r.PathValue("id"))
	switch {
	case !ok:
		return nil, notFound("disk %s does not exist", r.PathValue("id"))
	case disk.VM != "":
		return nil, conflict("disk %s is attached to %s", disk.ID, disk.VM)
	}
	api.Storage.Consumed(ctx, disk.ID, nil)
	this := ctx.Map.VStorageObjectManager().Reference()
	res := api.Carry(ctx, &core.Call{Name: "DeleteVStorageObject_Task", This: this}, &types.DeleteVStorageObject_Task{
		This: this, Id: types.ID{Id: disk.ID}, Datastore: disk.Datastore,
	})
	if _, fault := api.Follow(res.(*methods.DeleteVStorageObject_TaskBody)); fault != nil {
		return nil, conflict("disk %s: %s", disk.ID, vim.FaultText(fault))
	}
	return nil, nil
}

// attachDisk attaches a first class disk and answers with the UUID that the guest sees.
func (api *API) attachDisk(vm target) (any, error) {
	err := api.behind(vm.Self, "AttachDisk_Task", &types.AttachDisk_Task{This: vm.Self, DiskId: types.ID{Id: vm.id}})
	if err != nil {
		return nil, err
	}
	disk, _ := api.Storage.FirstClass(vm.ctx, vm.id)
	return map[string]string{"diskUUID": disk.DiskUUID}, nil
}

func (api *API) detachDisk(vm target) (any, error) {
	return nil, api.behind(vm.Self, "DetachDisk_Task", &types.DetachDisk_Task{This: vm.Self, DiskId: types.ID{Id: vm.id}})
}

// attachFile gives a VM a disk behind the client's back. A file that is not there is made.
func (api *API) attachFile(vm target, order fileOrder) (any, error) {
	if uuid, ok := uuidOn(vm.config(), order.File); ok {
		return map[string]string{"uuid": uuid}, nil
	}
	file := api.Storage.PathOf(order.File)
	if file == "" {
		return nil, invalid("%q is no file of a datastore", order.File)
	}
	if order.InPlaceOf != "" {
		if err := api.vacate(vm, order.InPlaceOf); err != nil {
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
	devices := object.VirtualDeviceList(vm.config().Hardware.Device)
	controller, err := devices.FindDiskController("")
	if err != nil {
		return nil, conflict("VM %s: %v", vm.Self.Value, err)
	}
	persistent := &types.VirtualDiskFlatVer2BackingInfo{DiskMode: string(types.VirtualDiskModePersistent), Uuid: vim.NewUUID()}
	persistent.FileName = order.File
	disk := &types.VirtualDisk{CapacityInKB: order.CapacityMiB << 10}
	disk.Backing = persistent
	devices.AssignController(disk, controller)
	err = api.reconfigure(vm, types.VirtualDeviceConfigSpec{
		Operation: types.VirtualDeviceConfigSpecOperationAdd, FileOperation: operation, Device: disk,
	})
	if err != nil {
		return nil, err
	}
	return map[string]string{"uuid": persistent.Uuid}, nil
}

// vacate destroys the VM's last disk, unless it is its only one.
func (api *API) vacate(vm target, which string) error {
	disks := vim.Disks(vm.config().Hardware.Device)
	if which != "last" || len(disks) < 2 {
		return conflict("VM %s has no disk %q to give up", vm.Self.Value, which)
	}
	return api.reconfigure(vm, types.VirtualDeviceConfigSpec{
		Operation:     types.VirtualDeviceConfigSpecOperationRemove,
		FileOperation: types.VirtualDeviceConfigSpecFileOperationDestroy,
		Device:        disks[len(disks)-1],
	})
}

// reconfigure makes one change of a VM's devices.
func (api *API) reconfigure(vm target, change types.VirtualDeviceConfigSpec) error {
	return api.behind(vm.Self, "ReconfigVM_Task", &types.ReconfigVM_Task{
		This: vm.Self, Spec: types.VirtualMachineConfigSpec{DeviceChange: []types.BaseVirtualDeviceConfigSpec{&change}},
	})
}

// uuidOn is that of the VM's disk with that file.
func uuidOn(config types.VirtualMachineConfigInfo, file string) (uuid string, ok bool) {
	for _, disk := range vim.Disks(config.Hardware.Device) {
		if backing, ok := disk.Backing.(*types.VirtualDiskFlatVer2BackingInfo); ok && backing.FileName == file {
			return backing.Uuid, true
		}
	}
	return "", false
}

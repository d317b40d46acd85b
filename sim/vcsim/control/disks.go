package control

import (
	"net/http"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/core"
	"layercake.invalid/sim/vcsim/vim"
)

// What a storage provider does with first class disks.

func (api *API) controlDisks(*http.Request) (any, error) {
	return map[string]any{"disks": api.Storage.FirstClassDisks(api.Fresh())}, nil
}

// controlMakeDisk makes a disk on the first datastore of the spec.
func (api *API) controlMakeDisk(r *http.Request) (any, error) {
	var order struct {
		Name        string `json:"name"`
		CapacityMiB int64  `json:"capacityMiB"`
	}
	if err := decodeStrict(r, &order); err != nil {
		return nil, err
	}
	if order.Name == "" || order.CapacityMiB < 1 {
		return nil, refuse(http.StatusBadRequest, "name and capacityMiB must be given")
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
		return nil, refuse(http.StatusConflict, "disk %s: %s", order.Name, vim.FaultText(fault))
	}
	disk, ok := made.(*types.VStorageObject)
	if !ok {
		return nil, refuse(http.StatusInternalServerError, "disk %s was not made: %T", order.Name, made)
	}
	return map[string]string{"id": disk.Config.Id.Id}, nil
}

// controlDeleteDisk deletes a disk that is attached to no VM.
func (api *API) controlDeleteDisk(r *http.Request) (any, error) {
	ctx := api.Fresh()
	disk, ok := api.Storage.FirstClass(ctx, r.PathValue("id"))
	switch {
	case !ok:
		return nil, refuse(http.StatusNotFound, "disk %s does not exist", r.PathValue("id"))
	case disk.VM != "":
		return nil, refuse(http.StatusConflict, "disk %s is attached to %s", disk.ID, disk.VM)
	}
	api.Storage.Consumed(ctx, disk.ID, nil)
	this := ctx.Map.VStorageObjectManager().Reference()
	res := api.Carry(ctx, &core.Call{Name: "DeleteVStorageObject_Task", This: this}, &types.DeleteVStorageObject_Task{
		This: this, Id: types.ID{Id: disk.ID}, Datastore: disk.Datastore,
	})
	if _, fault := api.Follow(res.(*methods.DeleteVStorageObject_TaskBody)); fault != nil {
		return nil, refuse(http.StatusConflict, "disk %s: %s", disk.ID, vim.FaultText(fault))
	}
	return nil, nil
}

// controlAttachDisk answers by which UUID the guest knows the disk then.
func (api *API) controlAttachDisk(r *http.Request) (any, error) {
	ctx, vm, err := api.controlVM(r)
	if err != nil {
		return nil, err
	}
	id := r.PathValue("id")
	err = api.behind(vm.Self, "AttachDisk_Task", &types.AttachDisk_Task{This: vm.Self, DiskId: types.ID{Id: id}})
	if err != nil {
		return nil, err
	}
	disk, _ := api.Storage.FirstClass(ctx, id)
	return map[string]string{"diskUUID": disk.DiskUUID}, nil
}

func (api *API) controlDetachDisk(r *http.Request) (any, error) {
	_, vm, err := api.controlVM(r)
	if err != nil {
		return nil, err
	}
	id := types.ID{Id: r.PathValue("id")}
	return nil, api.behind(vm.Self, "DetachDisk_Task", &types.DetachDisk_Task{This: vm.Self, DiskId: id})
}

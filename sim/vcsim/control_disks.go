package main

import (
	"net/http"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"
)

// What a storage provider does with first class disks.

func (s *Sim) controlDisks(*http.Request) (any, error) {
	return map[string]any{"disks": s.firstClassDisks(s.fresh())}, nil
}

// controlMakeDisk makes a disk on the first datastore of the spec.
func (s *Sim) controlMakeDisk(r *http.Request) (any, error) {
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
	ctx := s.fresh()
	this := ctx.Map.VStorageObjectManager().Reference()
	datastore := ref{Type: "Datastore", Value: s.found.Datastores[s.options.Spec.Datastores[0]]}
	keep := true
	made, fault := s.follow(s.carry(ctx, &call{name: "CreateDisk_Task", this: this}, &types.CreateDisk_Task{
		This: this,
		Spec: types.VslmCreateSpec{
			Name: order.Name, CapacityInMB: order.CapacityMiB, KeepAfterDeleteVm: &keep,
			BackingSpec: &types.VslmCreateSpecDiskFileBackingSpec{
				VslmCreateSpecBackingSpec: types.VslmCreateSpecBackingSpec{Datastore: datastore},
			},
		},
	}))
	if fault != nil {
		return nil, refuse(http.StatusConflict, "disk %s: %s", order.Name, faultText(fault))
	}
	disk, ok := made.(*types.VStorageObject)
	if !ok {
		return nil, refuse(http.StatusInternalServerError, "disk %s was not made: %T", order.Name, made)
	}
	return map[string]string{"id": disk.Config.Id.Id}, nil
}

// controlDeleteDisk deletes a disk that is attached to no VM.
func (s *Sim) controlDeleteDisk(r *http.Request) (any, error) {
	ctx := s.fresh()
	disk, ok := s.firstClass(ctx, r.PathValue("id"))
	switch {
	case !ok:
		return nil, refuse(http.StatusNotFound, "disk %s does not exist", r.PathValue("id"))
	case disk.VM != "":
		return nil, refuse(http.StatusConflict, "disk %s is attached to %s", disk.ID, disk.VM)
	}
	s.consumed(ctx, disk.ID, nil)
	this := ctx.Map.VStorageObjectManager().Reference()
	res := s.carry(ctx, &call{name: "DeleteVStorageObject_Task", this: this}, &types.DeleteVStorageObject_Task{
		This: this, Id: types.ID{Id: disk.ID}, Datastore: disk.datastore,
	})
	if _, fault := s.follow(res.(*methods.DeleteVStorageObject_TaskBody)); fault != nil {
		return nil, refuse(http.StatusConflict, "disk %s: %s", disk.ID, faultText(fault))
	}
	return nil, nil
}

// controlAttachDisk answers by which UUID the guest knows the disk then.
func (s *Sim) controlAttachDisk(r *http.Request) (any, error) {
	ctx, vm, err := s.controlVM(r)
	if err != nil {
		return nil, err
	}
	id := r.PathValue("id")
	err = s.behind(vm.Self, "AttachDisk_Task", &types.AttachDisk_Task{This: vm.Self, DiskId: types.ID{Id: id}})
	if err != nil {
		return nil, err
	}
	disk, _ := s.firstClass(ctx, id)
	return map[string]string{"diskUUID": disk.DiskUUID}, nil
}

func (s *Sim) controlDetachDisk(r *http.Request) (any, error) {
	_, vm, err := s.controlVM(r)
	if err != nil {
		return nil, err
	}
	id := types.ID{Id: r.PathValue("id")}
	return nil, s.behind(vm.Self, "DetachDisk_Task", &types.DetachDisk_Task{This: vm.Self, DiskId: id})
}

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// inventoryMethods are those of the tree of folders.
func (s *Sim) inventoryMethods() map[string]override {
	return map[string]override{
		"Destroy_Task":        s.destroy,
		"FindByUuid":          s.findByUUID,
		"MoveIntoFolder_Task": s.moveIntoFolder,
		"Rename_Task":         s.rename,
	}
}

// rename refuses a name that is taken with vCenter's fault.
func (s *Sim) rename(ctx *simulator.Context, _ *call, body types.AnyType) soap.HasFault {
	req := body.(*types.Rename_Task)
	e, ok := ctx.Map.Get(req.This).(mo.Entity)
	if !ok || req.This.Type != "VirtualMachine" && req.This.Type != "Folder" {
		return s.invoke(ctx, req.This, "Rename_Task", body)
	}
	var parent ref
	ctx.WithLock(e, func() { parent = *e.Entity().Parent })
	release, fault := s.claimName(parent, req.NewName)
	if fault != nil {
		return &methods.Rename_TaskBody{Res: &types.Rename_TaskResponse{
			Returnval: s.failedTask(req.This, "Rename_Task", fault),
		}}
	}
	defer release()
	res := s.invoke(ctx, req.This, "Rename_Task", body)
	_, _ = s.follow(res)
	return res
}

// moveIntoFolder refuses a name that the new folder has already.
func (s *Sim) moveIntoFolder(ctx *simulator.Context, _ *call, body types.AnyType) soap.HasFault {
	req := body.(*types.MoveIntoFolder_Task)
	for _, child := range req.List {
		var name string
		if e, ok := ctx.Map.Get(child).(mo.Entity); ok {
			ctx.WithLock(e, func() { name = e.Entity().Name })
		}
		if holder, taken := s.childNamed(req.This, name); taken && holder != child {
			return &methods.MoveIntoFolder_TaskBody{Res: &types.MoveIntoFolder_TaskResponse{
				Returnval: s.failedTask(req.This, "MoveIntoFolder_Task", &types.DuplicateName{Name: name, Object: holder}),
			}}
		}
	}
	res := s.invoke(ctx, req.This, "MoveIntoFolder_Task", body)
	_, _ = s.follow(res)
	for _, child := range req.List {
		// What is in a folder moves with it, and leaves the views of where it was.
		for _, vm := range s.vmsBelow(child) {
			s.hub.touch(vm)
		}
	}
	return res
}

// destroy deletes the disks of a VM whoever rests on them, as a host does that knows only its own VMs, and empties folders,
// which the library forgets to do.
func (s *Sim) destroy(ctx *simulator.Context, _ *call, body types.AnyType) soap.HasFault {
	req := body.(*types.Destroy_Task)
	switch req.This.Type {
	case "VirtualMachine":
		return s.inDestroyTask(req.This, s.destroyVM)
	case "Folder":
		return s.inDestroyTask(req.This, s.destroyFolder)
	}
	return s.invoke(ctx, req.This, "Destroy_Task", body)
}

func (s *Sim) inDestroyTask(this ref, do func(ref) types.BaseMethodFault) soap.HasFault {
	task := s.runTask(this, "Destroy_Task", func() (types.AnyType, types.BaseMethodFault) { return nil, do(this) })
	return &methods.Destroy_TaskBody{Res: &types.Destroy_TaskResponse{Returnval: task}}
}

// destroyVM takes the VM out of the inventory and its files off the disk, with those of every disk that is attached to it,
// wherever they lie. The library deletes them behind its own back.
func (s *Sim) destroyVM(this ref) types.BaseMethodFault {
	ctx := s.fresh()
	vm, ok := s.vmOf(ctx, this.Value)
	if !ok {
		return &types.ManagedObjectNotFound{Obj: this}
	}
	var fault types.BaseMethodFault
	var path object.DatastorePath
	var freed []*types.VirtualDisk
	s.files.Lock()
	defer s.files.Unlock()
	ctx.WithLock(vm, func() {
		if ctx.Map.Get(this) == nil {
			fault = &types.ManagedObjectNotFound{Obj: this}
			return
		}
		path.FromString(vm.Config.Files.VmPathName)
		for _, device := range vm.Config.Hardware.Device {
			if disk, ok := device.(*types.VirtualDisk); ok {
				freed = append(freed, disk)
			}
		}
		if f := vm.UnregisterVM(ctx, &types.UnregisterVM{This: this}).Fault(); f != nil {
			fault, _ = f.VimFault().(types.BaseMethodFault)
		}
	})
	if fault != nil {
		return fault
	}
	if dir := filepath.Dir(path.Path); filepath.IsLocal(dir) && dir != "." {
		_ = os.RemoveAll(filepath.Join(s.dir, "datastore-"+path.Datastore, dir))
	}
	for _, disk := range freed {
		giveBack(ctx, disk)
		if backing, ok := disk.Backing.(*types.VirtualDiskFlatVer2BackingInfo); ok {
			s.erase(backing.FileName)
		}
	}
	return nil
}

// giveBack undoes the library's book-keeping of a disk's space.
func giveBack(ctx *simulator.Context, disk *types.VirtualDisk) {
	backing, ok := disk.Backing.(*types.VirtualDiskFlatVer2BackingInfo)
	if !ok || backing.Datastore == nil {
		return
	}
	if datastore, ok := ctx.Map.Get(*backing.Datastore).(*simulator.Datastore); ok {
		ctx.WithLock(datastore, func() {
			datastore.Summary.FreeSpace += max(disk.CapacityInBytes, disk.CapacityInKB<<10)
			datastore.Info.GetDatastoreInfo().FreeSpace = datastore.Summary.FreeSpace
		})
	}
}

// destroyFolder destroys what is in the folder, then the folder. A VM that is on stops it.
func (s *Sim) destroyFolder(folder ref) types.BaseMethodFault {
	ctx := s.fresh()
	vms := s.machines.find(func(r row) bool { return r.Folder == folder.Value })
	for _, vm := range vms {
		if fault := s.destroyVM(vm); fault != nil {
			return fault
		}
	}
	for _, e := range ctx.Map.All("Folder") {
		var inside bool
		ctx.WithLock(e, func() { inside = e.Entity().Parent != nil && *e.Entity().Parent == folder })
		if inside {
			if fault := s.destroyFolder(e.Reference()); fault != nil {
				return fault
			}
		}
	}
	_, fault := s.follow(s.invoke(ctx, folder, "Destroy_Task", &types.Destroy_Task{This: folder}))
	return fault
}

func (s *Sim) vmsBelow(folder ref) (vms []ref) {
	ctx := s.fresh()
	f, ok := ctx.Map.Get(folder).(*simulator.Folder)
	if !ok {
		return nil
	}
	var children []ref
	ctx.WithLock(f, func() { children = slices.Clone(f.ChildEntity) })
	for _, child := range children {
		switch child.Type {
		case "VirtualMachine":
			vms = append(vms, child)
		case "Folder":
			vms = append(vms, s.vmsBelow(child)...)
		}
	}
	return vms
}

// makeFolder makes a folder of VMs.
func (s *Sim) makeFolder(parent ref, name string) (ref, error) {
	res := s.carry(s.fresh(), &call{name: "CreateFolder", this: parent}, &types.CreateFolder{This: parent, Name: name})
	body, ok := res.(*methods.CreateFolderBody)
	if !ok || body.Res == nil {
		return ref{}, fmt.Errorf("folder %s was not made", name)
	}
	return body.Res.Returnval, nil
}

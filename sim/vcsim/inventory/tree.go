// Package inventory is the tree of folders, pools and hosts, and where VMs are in it.
package inventory

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/core"
	"layercake.invalid/sim/vcsim/outage"
	"layercake.invalid/sim/vcsim/storage"
	"layercake.invalid/sim/vcsim/vim"
)

// Inventory is the tree of folders, hosts and pools, and the places of VMs in it.
type Inventory struct {
	*core.VCenter
	storage *storage.Storage
	outages *outage.Outages

	Modules   Modules
	Admission sync.Mutex // of reservations
	Admitted  admitted
	claims    claims
	turn      atomic.Int64 // of hosts
}

// New gives the inventory of a vCenter, which must be built.
func New(vc *core.VCenter, s *storage.Storage, o *outage.Outages) *Inventory {
	inv := &Inventory{VCenter: vc, storage: s, outages: o}
	inv.Modules.byID = map[string]*module{}
	return inv
}

// Methods are those of the tree of folders.
func (inv *Inventory) Methods() map[string]core.Override {
	return map[string]core.Override{
		"CreateDatacenter":    inv.createDatacenter,
		"CreateFolder":        inv.createFolder,
		"CreateResourcePool":  inv.createPool,
		"Destroy_Task":        inv.destroy,
		"FindByUuid":          inv.findByUUID,
		"MoveIntoFolder_Task": inv.moveIntoFolder,
		"Rename_Task":         inv.rename,
	}
}

// createFolder refuses names that no folder can have. The library escapes the name, those of its escapes too.
func (inv *Inventory) createFolder(ctx *simulator.Context, _ *core.Call, body types.AnyType) soap.HasFault {
	req := body.(*types.CreateFolder)
	if !vim.IsName(req.Name) {
		return invalidName(req.Name)
	}
	req.Name = vim.Unescaped(req.Name)
	return inv.Invoke(ctx, req.This, "CreateFolder", body)
}

// createDatacenter refuses names that no datacenter can have, and escapes the others, which the library does not.
func (inv *Inventory) createDatacenter(ctx *simulator.Context, _ *core.Call, body types.AnyType) soap.HasFault {
	req := body.(*types.CreateDatacenter)
	if !vim.IsName(req.Name) {
		return invalidName(req.Name)
	}
	req.Name = vim.Escaped(req.Name)
	return inv.Invoke(ctx, req.This, "CreateDatacenter", body)
}

// createPool refuses names that no pool can have, and more reserved than the pool above can give.
func (inv *Inventory) createPool(ctx *simulator.Context, _ *core.Call, body types.AnyType) soap.HasFault {
	req := body.(*types.CreateResourcePool)
	if !vim.IsName(req.Name) {
		return invalidName(req.Name)
	}
	if fault := inv.admitPool(ctx, req.This, &req.Spec); fault != nil {
		return vim.FaultBody(vim.FaultText(fault), fault)
	}
	req.Name = vim.Escaped(req.Name)
	return inv.Invoke(ctx, req.This, "CreateResourcePool", body)
}

func invalidName(name string) soap.HasFault {
	fault := &types.InvalidName{Name: name}
	return vim.FaultBody(vim.FaultText(fault), fault)
}

// rename refuses a name that is taken with vCenter's fault.
func (inv *Inventory) rename(ctx *simulator.Context, _ *core.Call, body types.AnyType) soap.HasFault {
	req := body.(*types.Rename_Task)
	if !vim.IsName(req.NewName) {
		return inv.FailedTask(req.This, "Rename_Task", &types.InvalidName{Name: req.NewName})
	}
	req.NewName = vim.Escaped(req.NewName)
	e, ok := ctx.Map.Get(req.This).(mo.Entity)
	if !ok || req.This.Type != "VirtualMachine" && req.This.Type != "Folder" {
		return inv.Invoke(ctx, req.This, "Rename_Task", body)
	}
	var parent vim.Ref
	ctx.WithLock(e, func() { parent = *e.Entity().Parent })
	release, fault := inv.ClaimName(parent, req.NewName)
	if fault != nil {
		return inv.FailedTask(req.This, "Rename_Task", fault)
	}
	defer release()
	res := inv.Invoke(ctx, req.This, "Rename_Task", body)
	_, _ = inv.Follow(res)
	return res
}

// moveIntoFolder refuses a name that the new folder has already.
func (inv *Inventory) moveIntoFolder(ctx *simulator.Context, _ *core.Call, body types.AnyType) soap.HasFault {
	req := body.(*types.MoveIntoFolder_Task)
	for _, child := range req.List {
		var name string
		if e, ok := ctx.Map.Get(child).(mo.Entity); ok {
			ctx.WithLock(e, func() { name = e.Entity().Name })
		}
		if holder, taken := inv.ChildNamed(req.This, name); taken && holder != child {
			return inv.FailedTask(req.This, "MoveIntoFolder_Task", &types.DuplicateName{Name: name, Object: holder})
		}
	}
	res := inv.movingVMs(ctx, req.This, "MoveIntoFolder_Task", body)
	for _, child := range req.List {
		// What is in a folder moves with it, and leaves the views of where it was.
		for _, vm := range inv.VMsBelow(child) {
			inv.Hub.Touch(vm)
		}
	}
	return res
}

// movingVMs runs a method for which the library locks a folder or a pool, and then each VM in it. To destroy a VM, it locks the VM
// first. Without the files lock, the two could wait for each other.
func (inv *Inventory) movingVMs(ctx *simulator.Context, this vim.Ref, method string, body types.AnyType) soap.HasFault {
	inv.storage.Files.Lock()
	defer inv.storage.Files.Unlock()
	res := inv.Invoke(ctx, this, method, body)
	_, _ = inv.Follow(res)
	return res
}

// destroy deletes the disks of a VM whoever rests on them, as a host does that knows only its own VMs, and empties folders,
// which the library forgets to do.
func (inv *Inventory) destroy(ctx *simulator.Context, _ *core.Call, body types.AnyType) soap.HasFault {
	req := body.(*types.Destroy_Task)
	switch req.This.Type {
	case "VirtualMachine":
		return inv.inDestroyTask(req.This, inv.DestroyVM)
	case "Folder":
		return inv.inDestroyTask(req.This, inv.destroyFolder)
	case "ResourcePool":
		return inv.movingVMs(ctx, req.This, "Destroy_Task", body)
	}
	return inv.Invoke(ctx, req.This, "Destroy_Task", body)
}

func (inv *Inventory) inDestroyTask(this vim.Ref, do func(vim.Ref) types.BaseMethodFault) soap.HasFault {
	return inv.InTask(this, "Destroy_Task", func() (types.AnyType, types.BaseMethodFault) { return nil, do(this) })
}

// DestroyVM takes the VM out of the inventory and its files off the disk, with those of every disk that is attached to it,
// wherever they lie. The library deletes them behind its own back.
func (inv *Inventory) DestroyVM(this vim.Ref) types.BaseMethodFault {
	ctx := inv.Fresh()
	vm, ok := inv.VMOf(ctx, this.Value)
	if !ok {
		return &types.ManagedObjectNotFound{Obj: this}
	}
	var fault types.BaseMethodFault
	var path object.DatastorePath
	var freed []*types.VirtualDisk
	inv.storage.Files.Lock()
	defer inv.storage.Files.Unlock()
	ctx.WithLock(vm, func() {
		if ctx.Map.Get(this) == nil {
			fault = &types.ManagedObjectNotFound{Obj: this}
			return
		}
		path.FromString(vm.Config.Files.VmPathName)
		freed = vim.Disks(vm.Config.Hardware.Device)
		if f := vm.UnregisterVM(ctx, &types.UnregisterVM{This: this}).Fault(); f != nil {
			fault, _ = f.VimFault().(types.BaseMethodFault)
		}
	})
	if fault != nil {
		return fault
	}
	if dir := filepath.Dir(path.Path); filepath.IsLocal(dir) && dir != "." {
		_ = os.RemoveAll(filepath.Join(inv.Dir, "datastore-"+path.Datastore, dir))
	}
	for _, disk := range freed {
		giveBack(ctx, disk)
		if backing, ok := disk.Backing.(*types.VirtualDiskFlatVer2BackingInfo); ok {
			inv.storage.Erase(backing.FileName)
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
func (inv *Inventory) destroyFolder(folder vim.Ref) types.BaseMethodFault {
	ctx := inv.Fresh()
	vms := inv.Machines.Find(func(r core.Row) bool { return r.Folder == folder.Value })
	for _, vm := range vms {
		if fault := inv.DestroyVM(vm); fault != nil {
			return fault
		}
	}
	for _, e := range ctx.Map.All("Folder") {
		var inside bool
		ctx.WithLock(e, func() { inside = e.Entity().Parent != nil && *e.Entity().Parent == folder })
		if inside {
			if fault := inv.destroyFolder(e.Reference()); fault != nil {
				return fault
			}
		}
	}
	_, fault := inv.Follow(inv.Invoke(ctx, folder, "Destroy_Task", &types.Destroy_Task{This: folder}))
	return fault
}

// VMsBelow are the VMs in a folder and in the folders in it.
func (inv *Inventory) VMsBelow(folder vim.Ref) (vms []vim.Ref) {
	ctx := inv.Fresh()
	f, ok := ctx.Map.Get(folder).(*simulator.Folder)
	if !ok {
		return nil
	}
	var children []vim.Ref
	ctx.WithLock(f, func() { children = slices.Clone(f.ChildEntity) })
	for _, child := range children {
		switch child.Type {
		case "VirtualMachine":
			vms = append(vms, child)
		case "Folder":
			vms = append(vms, inv.VMsBelow(child)...)
		}
	}
	return vms
}

// MakeFolder makes a folder of VMs.
func (inv *Inventory) MakeFolder(parent vim.Ref, name string) (vim.Ref, error) {
	res := inv.Carry(inv.Fresh(), &core.Call{Name: "CreateFolder", This: parent}, &types.CreateFolder{This: parent, Name: name})
	body, ok := res.(*methods.CreateFolderBody)
	if !ok || body.Res == nil {
		return vim.Ref{}, fmt.Errorf("folder %s was not made", name)
	}
	return body.Res.Returnval, nil
}

package storage

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/core"
	"layercake.invalid/sim/vcsim/vim"
)

// First class disks are volumes that are nobody's VM: what a storage provider makes of a claim. The library keeps a
// catalog of them and forgets the device when one is attached.

// fcdFolder is where the library puts them on a datastore.
const fcdFolder = "fcd"

// attachDisk plugs a first class disk into a VM. One that is attached to the VM already stays as it is.
func (s *Storage) attachDisk(_ *simulator.Context, _ *core.Call, body types.AnyType) soap.HasFault {
	req := body.(*types.AttachDisk_Task)
	return s.InTask(req.This, "AttachDisk_Task", func() (types.AnyType, types.BaseMethodFault) {
		return nil, s.attached(req)
	})
}

// detachDisk takes a first class disk off a VM. One that is not attached to it is free as well then.
func (s *Storage) detachDisk(_ *simulator.Context, _ *core.Call, body types.AnyType) soap.HasFault {
	req := body.(*types.DetachDisk_Task)
	return s.InTask(req.This, "DetachDisk_Task", func() (types.AnyType, types.BaseMethodFault) {
		return nil, s.detached(req.This, req.DiskId.Id)
	})
}

func (s *Storage) attached(req *types.AttachDisk_Task) types.BaseMethodFault {
	ctx := s.Fresh()
	vm, ok := s.VMOf(ctx, req.This.Value)
	if !ok {
		return &types.ManagedObjectNotFound{Obj: req.This}
	}
	disk, ok := s.FirstClass(ctx, req.DiskId.Id)
	switch {
	case !ok:
		return &types.NotFound{}
	case disk.VM == req.This.Value:
		return nil
	case disk.VM != "":
		return &types.InvalidState{}
	}
	var spec types.VirtualMachineConfigSpec
	var uuid string
	ctx.WithLock(vm, func() { spec, uuid = plugged(vm, disk), vm.Config.Uuid })
	if fault := s.reconfigured(req.This, spec); fault != nil {
		return fault
	}
	s.Consumed(ctx, disk.ID, []types.ID{{Id: uuid}})
	return nil
}

func (s *Storage) detached(this vim.Ref, id string) types.BaseMethodFault {
	ctx := s.Fresh()
	vm, ok := s.VMOf(ctx, this.Value)
	if !ok {
		return &types.ManagedObjectNotFound{Obj: this}
	}
	var device *types.VirtualDisk
	ctx.WithLock(vm, func() { device = deviceOf(vm, id) })
	if device != nil {
		spec := types.VirtualMachineConfigSpec{DeviceChange: []types.BaseVirtualDeviceConfigSpec{
			&types.VirtualDeviceConfigSpec{Operation: types.VirtualDeviceConfigSpecOperationRemove, Device: device},
		}}
		if fault := s.reconfigured(this, spec); fault != nil {
			return fault
		}
	}
	s.Consumed(ctx, id, nil)
	return nil
}

func (s *Storage) reconfigured(this vim.Ref, spec types.VirtualMachineConfigSpec) types.BaseMethodFault {
	body := &types.ReconfigVM_Task{This: this, Spec: spec}
	_, fault := s.Follow(s.Carry(s.Fresh(), &core.Call{Name: "ReconfigVM_Task", This: this}, body))
	return fault
}

// plugged is the change that plugs a disk into the VM, whose lock is held.
func plugged(vm *simulator.VirtualMachine, disk FirstClass) types.VirtualMachineConfigSpec {
	devices := object.VirtualDeviceList(vm.Config.Hardware.Device)
	device := &types.VirtualDisk{
		VirtualDevice: types.VirtualDevice{
			Key: -1,
			Backing: &types.VirtualDiskFlatVer2BackingInfo{
				VirtualDeviceFileBackingInfo: types.VirtualDeviceFileBackingInfo{FileName: disk.file},
				DiskMode:                     string(types.VirtualDiskModeIndependent_persistent),
			},
		},
		CapacityInBytes: disk.CapacityMiB << 20,
		CapacityInKB:    disk.CapacityMiB << 10,
		VDiskId:         &types.ID{Id: disk.ID},
	}
	if controller, err := devices.FindDiskController("scsi"); err == nil {
		devices.AssignController(device, controller)
	}
	return types.VirtualMachineConfigSpec{DeviceChange: []types.BaseVirtualDeviceConfigSpec{
		&types.VirtualDeviceConfigSpec{Operation: types.VirtualDeviceConfigSpecOperationAdd, Device: device},
	}}
}

// deviceOf is a first class disk as it is attached to a VM, whose lock is held.
func deviceOf(vm *simulator.VirtualMachine, id string) *types.VirtualDisk {
	for _, disk := range vim.Disks(vm.Config.Hardware.Device) {
		if disk.VDiskId != nil && disk.VDiskId.Id == id {
			return disk
		}
	}
	return nil
}

// FirstClass is a first class disk as the control API lists it.
type FirstClass struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	CapacityMiB int64  `json:"capacityMiB"`
	Exists      bool   `json:"exists"`   // whether its file is still there
	VM          string `json:"vm"`       // the VM it is attached to; empty while it is attached to none
	DiskUUID    string `json:"diskUUID"` // by which that VM's guest knows it
	file        string
	Datastore   vim.Ref `json:"-"`
}

// FirstClassDisks lists all of them.
func (s *Storage) FirstClassDisks(ctx *simulator.Context) []FirstClass {
	disks := []FirstClass{}
	manager := ctx.Map.VStorageObjectManager()
	ctx.WithLock(manager, func() {
		for datastore, objects := range manager.Catalog() {
			for id, o := range objects {
				backing := o.Config.Backing.(*types.BaseConfigInfoDiskFileBackingInfo)
				disks = append(disks, FirstClass{
					ID: id.Id, Name: o.Config.Name, CapacityMiB: o.Config.CapacityInMB,
					file: backing.FilePath, Datastore: datastore,
				})
			}
		}
	})
	for i := range disks {
		_, err := os.Stat(s.PathOf(disks[i].file))
		disks[i].Exists = err == nil
		s.attachedTo(ctx, &disks[i])
	}
	return disks
}

// attachedTo looks at the VMs: who destroys or reconfigures one does not update the catalog.
func (s *Storage) attachedTo(ctx *simulator.Context, disk *FirstClass) {
	for _, e := range ctx.Map.All("VirtualMachine") {
		vm := e.(*simulator.VirtualMachine)
		ctx.WithLock(vm, func() {
			device := deviceOf(vm, disk.ID)
			if device == nil {
				return
			}
			disk.VM = vm.Self.Value
			if backing, ok := device.Backing.(*types.VirtualDiskFlatVer2BackingInfo); ok {
				disk.DiskUUID = backing.Uuid
			}
		})
	}
}

// FirstClass is the disk with that id.
func (s *Storage) FirstClass(ctx *simulator.Context, id string) (FirstClass, bool) {
	for _, disk := range s.FirstClassDisks(ctx) {
		if disk.ID == id {
			return disk, true
		}
	}
	return FirstClass{}, false
}

// Consumed tells the catalog whose a disk is.
func (s *Storage) Consumed(ctx *simulator.Context, id string, by []types.ID) {
	manager := ctx.Map.VStorageObjectManager()
	ctx.WithLock(manager, func() {
		for _, objects := range manager.Catalog() {
			if o := objects[types.ID{Id: id}]; o != nil {
				o.Config.ConsumerId = by
			}
		}
	})
}

// PathOf is a file of a datastore on this machine.
func (s *Storage) PathOf(file string) string {
	var path object.DatastorePath
	if !path.FromString(file) || !filepath.IsLocal(path.Path) {
		return ""
	}
	return filepath.Join(s.Dir, "datastore-"+path.Datastore, path.Path)
}

// Erase deletes a disk's files, those that lie outside its VM's folder too.
func (s *Storage) Erase(file string) {
	if path := s.PathOf(file); path != "" {
		_ = os.Remove(path)
		_ = os.Remove(strings.TrimSuffix(path, ".vmdk") + "-flat.vmdk")
		if folder := filepath.Dir(path); filepath.Base(folder) != fcdFolder {
			_ = os.Remove(folder) // if nothing else is in it
		}
	}
}

// LacksFiles tells whether a file is gone that the VM's disks are in or rest on.
func (s *Storage) LacksFiles(ctx *simulator.Context, vm *simulator.VirtualMachine) bool {
	var own, bases []string
	ctx.WithLock(vm, func() { own, bases = vim.FilesOf(vm) })
	return slices.ContainsFunc(append(own, bases...), func(file string) bool {
		_, err := os.Stat(s.PathOf(file))
		return err != nil
	})
}

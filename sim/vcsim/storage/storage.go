// Package storage is the datastores: the files of VMs and first class disks.
package storage

import (
	"sync"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/core"
	"layercake.invalid/sim/vcsim/vim"
)

// The library reads a datastore's object without its lock whenever it looks for a VM's file, and writes to it under
// the lock when VMs come and go. The files lock keeps the two apart; it is taken before any object's. It also keeps methods
// apart that lock folders, pools and VMs in different orders.

// Storage is the files of VMs and first class disks, on the datastores.
type Storage struct {
	*core.VCenter
	Files sync.RWMutex
}

// New gives the storage of a vCenter.
func New(vc *core.VCenter) *Storage { return &Storage{VCenter: vc} }

// Methods are those of disks and snapshots.
func (s *Storage) Methods() map[string]core.Override {
	return map[string]core.Override{
		"AttachDisk_Task":     s.attachDisk,
		"CreateSnapshot_Task": s.createSnapshot,
		"DetachDisk_Task":     s.detachDisk,
	}
}

// Writing runs a method that makes VMs, and waits for its task.
func (s *Storage) Writing(ctx *simulator.Context, this vim.Ref, method string, body types.AnyType) (types.AnyType, types.BaseMethodFault) {
	s.Files.Lock()
	defer s.Files.Unlock()
	return s.Follow(s.Invoke(ctx, this, method, body))
}

// Reading runs a method that looks for a VM's files, and waits for its task.
func (s *Storage) Reading(ctx *simulator.Context, this vim.Ref, method string, body types.AnyType) (types.AnyType, types.BaseMethodFault) {
	s.Files.RLock()
	defer s.Files.RUnlock()
	return s.Follow(s.Invoke(ctx, this, method, body))
}

func (s *Storage) createSnapshot(ctx *simulator.Context, k *core.Call, body types.AnyType) soap.HasFault {
	this := body.(*types.CreateSnapshot_Task).This
	return s.InTask(this, "CreateSnapshot_Task", func() (types.AnyType, types.BaseMethodFault) {
		return s.Reading(s.Fresh(), this, "CreateSnapshot_Task", body)
	})
}

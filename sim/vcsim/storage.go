package main

import (
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// The library reads a datastore's object without its lock whenever it looks for a VM's file, and writes to it under
// the lock when VMs come and go. The files lock keeps the two apart; it is taken before any object's.

// storageMethods are those of disks and snapshots.
func (s *Sim) storageMethods() map[string]override {
	return map[string]override{
		"AttachDisk_Task":     s.attachDisk,
		"CreateSnapshot_Task": s.createSnapshot,
		"DetachDisk_Task":     s.detachDisk,
	}
}

// writing runs a method that makes VMs, and waits for its task.
func (s *Sim) writing(ctx *simulator.Context, this ref, method string, body types.AnyType) (types.AnyType, types.BaseMethodFault) {
	s.files.Lock()
	defer s.files.Unlock()
	return s.follow(s.invoke(ctx, this, method, body))
}

// reading runs a method that looks for a VM's files, and waits for its task.
func (s *Sim) reading(ctx *simulator.Context, this ref, method string, body types.AnyType) (types.AnyType, types.BaseMethodFault) {
	s.files.RLock()
	defer s.files.RUnlock()
	return s.follow(s.invoke(ctx, this, method, body))
}

func (s *Sim) createSnapshot(ctx *simulator.Context, k *call, body types.AnyType) soap.HasFault {
	this := body.(*types.CreateSnapshot_Task).This
	return s.inTask(&call{name: "CreateSnapshot_Task", this: this}, func() (types.AnyType, types.BaseMethodFault) {
		return s.reading(s.fresh(), this, "CreateSnapshot_Task", body)
	})
}

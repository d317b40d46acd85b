package main

import (
	"net/http"
	"time"

	"github.com/vmware/govmomi/vim25/types"
)

// controlCut closes every connection of vCenter's endpoint, refuses new ones for a while, and may lose all sessions, as a
// restart of vpxd does: VMs stay as they are.
func (s *Sim) controlCut(r *http.Request) (any, error) {
	var order struct {
		DownMs   int  `json:"downMs"`
		Sessions bool `json:"sessions"`
	}
	if err := decodeStrict(r, &order); err != nil {
		return nil, err
	}
	return nil, s.front.whileCut(func() {
		if order.Sessions {
			s.endSessions()
		}
		select {
		case <-time.After(time.Duration(order.DownMs) * time.Millisecond):
		case <-s.done:
		}
	})
}

// controlRename gives a VM another name behind the client's back.
func (s *Sim) controlRename(r *http.Request) (any, error) {
	var order struct {
		Name string `json:"name"`
	}
	_, vm, err := s.controlVM(r)
	if err == nil {
		err = decodeStrict(r, &order)
	}
	if err != nil {
		return nil, err
	}
	return nil, s.behind(vm.Self, "Rename_Task", &types.Rename_Task{This: vm.Self, NewName: order.Name})
}

// controlMove puts a VM into another folder behind the client's back.
func (s *Sim) controlMove(r *http.Request) (any, error) {
	var order struct {
		Folder string `json:"folder"`
	}
	_, vm, err := s.controlVM(r)
	if err == nil {
		err = decodeStrict(r, &order)
	}
	if err != nil {
		return nil, err
	}
	folder := ref{Type: "Folder", Value: order.Folder}
	return nil, s.behind(folder, "MoveIntoFolder_Task", &types.MoveIntoFolder_Task{This: folder, List: []ref{vm.Self}})
}

// behind carries out a method as an administrator would who sits at another client.
func (s *Sim) behind(this ref, method string, body types.AnyType) error {
	if _, fault := s.follow(s.carry(s.fresh(), &call{name: method, this: this}, body)); fault != nil {
		return refuse(http.StatusConflict, "%s on %s: %s", method, this.Value, faultText(fault))
	}
	return nil
}

// controlOrphans lists what nobody would miss: folders of the datastores that belong to no VM, and tasks that still run.
func (s *Sim) controlOrphans(*http.Request) (any, error) {
	ctx := s.fresh()
	orphans, err := s.orphanedFiles(ctx)
	if err != nil {
		return nil, err
	}
	return map[string]any{"files": orphans, "tasks": s.runningTasks(ctx)}, nil
}

// controlRemoveOrphans removes the folders of the datastores that belong to no VM.
func (s *Sim) controlRemoveOrphans(*http.Request) (any, error) {
	return nil, s.removeOrphans()
}

// controlMakeFolder makes a folder of VMs.
func (s *Sim) controlMakeFolder(r *http.Request) (any, error) {
	var order struct {
		Parent string `json:"parent"`
		Name   string `json:"name"`
	}
	if err := decodeStrict(r, &order); err != nil {
		return nil, err
	}
	made, err := s.makeFolder(ref{Type: "Folder", Value: order.Parent}, order.Name)
	if err != nil {
		return nil, refuse(http.StatusConflict, "%v", err)
	}
	return map[string]string{"moid": made.Value}, nil
}

// controlClear destroys a folder or a pool with all that is in it.
func (s *Sim) controlClear(r *http.Request, kind string) (any, error) {
	this := ref{Type: kind, Value: r.PathValue("moid")}
	ctx := s.fresh()
	if ctx.Map.Get(this) == nil {
		return nil, refuse(http.StatusNotFound, "%s %s does not exist", kind, this.Value)
	}
	if kind == "Folder" {
		s.clearBelow(this)
	}
	return nil, s.behind(this, "Destroy_Task", &types.Destroy_Task{This: this})
}

// clearBelow destroys all VMs below a folder: templates last, for clones rest on their disks.
func (s *Sim) clearBelow(folder ref) {
	vms := s.vmsBelow(folder)
	for range vms {
		left := vms[:0:0]
		for _, vm := range vms {
			s.forceOff(vm)
			if s.destroyVM(vm) != nil {
				left = append(left, vm)
			}
		}
		vms = left
	}
}

func (s *Sim) controlJournal(r *http.Request) (any, error) {
	return map[string]any{"calls": s.journal.take(r.Method == http.MethodDelete)}, nil
}

// controlClock sets vCenter's clock so far from the true time.
func (s *Sim) controlClock(r *http.Request) (any, error) {
	var order struct {
		OffsetSeconds int64 `json:"offsetSeconds"`
	}
	if err := decodeStrict(r, &order); err != nil {
		return nil, err
	}
	s.clock.set(time.Duration(order.OffsetSeconds) * time.Second)
	return nil, nil
}

// controlClearModules removes all modules.
func (s *Sim) controlClearModules(*http.Request) (any, error) {
	s.modules.clear()
	return nil, nil
}

// controlPrivileges takes privileges away from the client's user: {"missing":["VirtualMachine.Interact.PowerOn"]}. An
// empty list gives all back.
func (s *Sim) controlPrivileges(r *http.Request) (any, error) {
	var body struct {
		Missing []string `json:"missing"`
	}
	if err := decodeStrict(r, &body); err != nil {
		return nil, err
	}
	s.privileges.set(body.Missing)
	return nil, nil
}

// controlUploads shows the update sessions.
func (s *Sim) controlUploads(*http.Request) (any, error) {
	return map[string]any{"sessions": s.uploadsSeen()}, nil
}

// controlExpireUploads lets the time pass in which sessions without activity expire.
func (s *Sim) controlExpireUploads(*http.Request) (any, error) {
	s.expireUploads()
	return nil, nil
}

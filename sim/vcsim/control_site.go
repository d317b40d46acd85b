package main

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
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
	s.frontLock.Lock()
	defer s.frontLock.Unlock()
	_ = s.frontServer.Close()
	if order.Sessions {
		if _, err := s.controlExpire(r); err != nil {
			return nil, err
		}
	}
	select {
	case <-time.After(time.Duration(order.DownMs) * time.Millisecond):
	case <-s.done:
		return nil, nil
	}
	return nil, s.openFront()
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
	if _, fault := s.follow(s.carry(fresh(s.svc), &call{name: method, this: this}, body)); fault != nil {
		return refuse(http.StatusConflict, "%s on %s: %s", method, this.Value, faultText(fault))
	}
	return nil
}

// controlOrphans lists what nobody would miss: folders of the datastores that belong to no VM, and tasks that still run.
func (s *Sim) controlOrphans(*http.Request) (any, error) {
	ctx := fresh(s.svc)
	orphans, err := s.orphanedFiles(ctx)
	if err != nil {
		return nil, err
	}
	return map[string]any{"files": orphans, "tasks": s.runningTasks(ctx)}, nil
}

// controlRemoveOrphans removes the folders of the datastores that belong to no VM.
func (s *Sim) controlRemoveOrphans(*http.Request) (any, error) {
	s.files.Lock()
	defer s.files.Unlock()
	orphans, err := s.orphanedFiles(fresh(s.svc))
	for _, folder := range orphans {
		_ = os.RemoveAll(filepath.Join(s.dir, "datastore-"+folder))
	}
	return nil, err
}

func (s *Sim) orphanedFiles(ctx *simulator.Context) ([]string, error) {
	used := map[string]bool{}
	use := func(name string) {
		var path object.DatastorePath
		if path.FromString(name) {
			used[filepath.Join(path.Datastore, strings.Split(path.Path, "/")[0])] = true
		}
	}
	for _, e := range ctx.Map.All("VirtualMachine") {
		vm := e.(*simulator.VirtualMachine)
		ctx.WithLock(vm, func() {
			use(vm.Config.Files.VmPathName)
			disks, bases := filesOf(vm)
			for _, file := range append(disks, bases...) {
				use(file)
			}
		})
	}
	orphans := []string{}
	for _, name := range s.options.Spec.Datastores {
		found, err := os.ReadDir(filepath.Join(s.dir, "datastore-"+name))
		if err != nil {
			return nil, err
		}
		for _, file := range found {
			// The library's own files stand in folders of their own, and first class disks are nobody's VM.
			own := strings.HasPrefix(file.Name(), "contentlib-") || file.Name() == fcdFolder
			if path := filepath.Join(name, file.Name()); !used[path] && !own {
				orphans = append(orphans, path)
			}
		}
	}
	slices.Sort(orphans)
	return orphans, nil
}

func (s *Sim) runningTasks(ctx *simulator.Context) []string {
	running := []string{}
	for _, o := range ctx.Map.AllReference("Task") {
		task, ok := o.(*simulator.Task)
		if !ok {
			continue
		}
		ctx.WithLock(task, func() {
			if state := task.Info.State; state == types.TaskInfoStateRunning || state == types.TaskInfoStateQueued {
				running = append(running, task.Info.DescriptionId+" on "+task.Info.EntityName)
			}
		})
	}
	slices.Sort(running)
	return running
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
		return nil, err
	}
	return map[string]string{"moid": made.Value}, nil
}

func (s *Sim) makeFolder(parent ref, name string) (ref, error) {
	res := s.carry(fresh(s.svc), &call{name: "CreateFolder", this: parent}, &types.CreateFolder{This: parent, Name: name})
	body, ok := res.(*methods.CreateFolderBody)
	if !ok || body.Res == nil {
		return ref{}, refuse(http.StatusConflict, "folder %s was not made", name)
	}
	return body.Res.Returnval, nil
}

// controlClear destroys a folder or a pool with all that is in it.
func (s *Sim) controlClear(r *http.Request, kind string) (any, error) {
	this := ref{Type: kind, Value: r.PathValue("moid")}
	ctx := fresh(s.svc)
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

func (s *Sim) vmsBelow(folder ref) (vms []ref) {
	ctx := fresh(s.svc)
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

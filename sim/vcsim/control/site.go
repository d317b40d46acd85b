package control

import (
	"net/http"
	"time"

	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/core"
	"layercake.invalid/sim/vcsim/vim"
)

// controlCut closes every connection of vCenter's endpoint, refuses new ones for a while, and may lose all sessions, as a
// restart of vpxd does: VMs stay as they are.
func (api *API) controlCut(r *http.Request) (any, error) {
	var order struct {
		DownMs   int  `json:"downMs"`
		Sessions bool `json:"sessions"`
	}
	if err := decodeStrict(r, &order); err != nil {
		return nil, err
	}
	return nil, api.Wire.WhileCut(func() {
		if order.Sessions {
			api.Wire.EndSessions()
		}
		select {
		case <-time.After(time.Duration(order.DownMs) * time.Millisecond):
		case <-api.Done:
		}
	})
}

// controlRename gives a VM another name behind the client's back.
func (api *API) controlRename(r *http.Request) (any, error) {
	var order struct {
		Name string `json:"name"`
	}
	_, vm, err := api.controlVM(r)
	if err == nil {
		err = decodeStrict(r, &order)
	}
	if err != nil {
		return nil, err
	}
	return nil, api.behind(vm.Self, "Rename_Task", &types.Rename_Task{This: vm.Self, NewName: order.Name})
}

// controlMove puts a VM into another folder behind the client's back.
func (api *API) controlMove(r *http.Request) (any, error) {
	var order struct {
		Folder string `json:"folder"`
	}
	_, vm, err := api.controlVM(r)
	if err == nil {
		err = decodeStrict(r, &order)
	}
	if err != nil {
		return nil, err
	}
	folder := vim.Ref{Type: "Folder", Value: order.Folder}
	return nil, api.behind(folder, "MoveIntoFolder_Task", &types.MoveIntoFolder_Task{This: folder, List: []vim.Ref{vm.Self}})
}

// behind carries out a method as an administrator would who sits at another client.
func (api *API) behind(this vim.Ref, method string, body types.AnyType) error {
	if _, fault := api.Follow(api.Carry(api.Fresh(), &core.Call{Name: method, This: this}, body)); fault != nil {
		return refuse(http.StatusConflict, "%s on %s: %s", method, this.Value, vim.FaultText(fault))
	}
	return nil
}

// controlOrphans lists what nobody would miss: folders of the datastores that belong to no VM, and tasks that still run.
func (api *API) controlOrphans(*http.Request) (any, error) {
	ctx := api.Fresh()
	orphans, err := api.Storage.OrphanedFiles(ctx)
	if err != nil {
		return nil, err
	}
	return map[string]any{"files": orphans, "tasks": api.RunningTasks(ctx)}, nil
}

// controlRemoveOrphans removes the folders of the datastores that belong to no VM.
func (api *API) controlRemoveOrphans(*http.Request) (any, error) {
	return nil, api.Storage.RemoveOrphans()
}

// controlMakeFolder makes a folder of VMs.
func (api *API) controlMakeFolder(r *http.Request) (any, error) {
	var order struct {
		Parent string `json:"parent"`
		Name   string `json:"name"`
	}
	if err := decodeStrict(r, &order); err != nil {
		return nil, err
	}
	made, err := api.Inventory.MakeFolder(vim.Ref{Type: "Folder", Value: order.Parent}, order.Name)
	if err != nil {
		return nil, refuse(http.StatusConflict, "%v", err)
	}
	return map[string]string{"moid": made.Value}, nil
}

// controlClear destroys a folder or a pool with all that is in it.
func (api *API) controlClear(r *http.Request, kind string) (any, error) {
	this := vim.Ref{Type: kind, Value: r.PathValue("moid")}
	ctx := api.Fresh()
	if ctx.Map.Get(this) == nil {
		return nil, refuse(http.StatusNotFound, "%s %s does not exist", kind, this.Value)
	}
	if kind == "Folder" {
		api.clearBelow(this)
	}
	return nil, api.behind(this, "Destroy_Task", &types.Destroy_Task{This: this})
}

// clearBelow destroys all VMs below a folder: templates last, for clones rest on their disks.
func (api *API) clearBelow(folder vim.Ref) {
	vms := api.Inventory.VMsBelow(folder)
	for range vms {
		left := vms[:0:0]
		for _, vm := range vms {
			api.forceOff(vm)
			if api.Inventory.DestroyVM(vm) != nil {
				left = append(left, vm)
			}
		}
		vms = left
	}
}

func (api *API) controlJournal(r *http.Request) (any, error) {
	return map[string]any{"calls": api.Journal.Take(r.Method == http.MethodDelete)}, nil
}

// controlClock sets vCenter's clock so far from the true time.
func (api *API) controlClock(r *http.Request) (any, error) {
	var order struct {
		OffsetSeconds int64 `json:"offsetSeconds"`
	}
	if err := decodeStrict(r, &order); err != nil {
		return nil, err
	}
	api.Clock.Set(time.Duration(order.OffsetSeconds) * time.Second)
	return nil, nil
}

// controlClearModules removes all modules.
func (api *API) controlClearModules(*http.Request) (any, error) {
	api.Inventory.Modules.Clear()
	return nil, nil
}

// controlPrivileges takes privileges away from the client's user: {"missing":["VirtualMachine.Interact.PowerOn"]}. An
// empty list gives all back.
func (api *API) controlPrivileges(r *http.Request) (any, error) {
	var body struct {
		Missing []string `json:"missing"`
	}
	if err := decodeStrict(r, &body); err != nil {
		return nil, err
	}
	api.Privileges.Set(body.Missing)
	return nil, nil
}

// controlUploads shows the update sessions.
func (api *API) controlUploads(*http.Request) (any, error) {
	return map[string]any{"sessions": api.Library.UploadsSeen()}, nil
}

// ControlExpireUploads lets the time pass in which sessions without activity expire.
func (api *API) ControlExpireUploads(*http.Request) (any, error) {
	api.Library.ExpireUploads()
	return nil, nil
}

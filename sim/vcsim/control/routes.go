package control

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/faults"
	"layercake.invalid/sim/vcsim/vim"
)

// Bodies of requests.
type (
	nameOrder struct {
		Name string `json:"name"`
	}
	moveOrder struct {
		Folder string `json:"folder"`
	}
	questionOrder struct {
		Text string `json:"text"` // none takes the question away
	}
	powerOrder struct {
		Action string `json:"action"`
	}
	copiesOrder struct {
		Count  int    `json:"count"`
		Prefix string `json:"prefix"`
	}
	diskOrder struct {
		Name        string `json:"name"`
		CapacityMiB int64  `json:"capacityMiB"`
	}
	folderOrder struct {
		Parent string `json:"parent"`
		Name   string `json:"name"`
	}
	fileOrder struct {
		File        string `json:"file"` // as vCenter writes it: [datastore] folder/name.vmdk
		CapacityMiB int64  `json:"capacityMiB"`
		InPlaceOf   string `json:"inPlaceOf"` // last: the VM's last disk goes, with its file
	}
	vmOutage struct {
		State  types.VirtualMachineConnectionState `json:"state"`
		Config string                              `json:"config"` // unset, or kept
	}
	hostOutage struct {
		State types.HostSystemConnectionState `json:"state"`
	}
	storeOutage struct {
		Accessible bool `json:"accessible"`
	}
	cutOrder struct {
		DownMs   int  `json:"downMs"`
		Sessions bool `json:"sessions"`
	}
	clockOrder struct {
		OffsetSeconds int64 `json:"offsetSeconds"`
	}
	privilegeOrder struct {
		Missing []string `json:"missing"` // VirtualMachine.Interact.PowerOn; none gives all back
	}
)

// list is an answer with one member.
func list(name string, values any) map[string]any { return map[string]any{name: values} }

// routes are all actions of the API by method and path.
func (api *API) routes() map[string]action {
	return map[string]action{
		// Requests and sessions of clients.
		"GET /v1/requests":    look(func() any { return api.Counters.Snapshot() }),
		"DELETE /v1/requests": do(api.Counters.Reset),
		"GET /v1/journal":     look(func() any { return list("calls", api.Journal.Take(false)) }),
		"DELETE /v1/journal":  look(func() any { return list("calls", api.Journal.Take(true)) }),
		// No log may contain any of these tokens.
		"GET /v1/sessions":         look(func() any { return list("tokens", api.Wire.Issued.All()) }),
		"POST /v1/sessions/expire": look(func() any { return list("expired", api.Wire.EndSessions()) }),
		"POST /v1/front/cut":       order(api.cut),

		// Faults that calls meet.
		"GET /v1/faults":         look(func() any { return list("faults", api.Rules.Snapshot()) }),
		"POST /v1/faults":        order(api.addFault),
		"DELETE /v1/faults":      api.removeFault,
		"DELETE /v1/faults/{id}": api.removeFault,
		"PUT /v1/privileges": order(func(_ *http.Request, o privilegeOrder) (any, error) {
			api.Privileges.Set(o.Missing)
			return nil, nil
		}),

		// Outages.
		"PUT /v1/vms/{moid}/outage":        orderVM(api, api.loseVM),
		"PUT /v1/hosts/{moid}/outage":      order(api.loseHost),
		"PUT /v1/datastores/{name}/outage": order(api.loseStore),
		"DELETE /v1/outages":               do(api.Outages.End),

		// vCenter's database and clock.
		"POST /v1/backup":          do(api.Backups.Take),
		"POST /v1/restore":         api.restore,
		"POST /v1/hosts/reconnect": api.reconnect,
		"PUT /v1/clock": order(func(_ *http.Request, o clockOrder) (any, error) {
			api.Clock.Set(time.Duration(o.OffsetSeconds) * time.Second)
			return nil, nil
		}),

		// VMs, as their guests and other clients see and change them.
		"GET /v1/vms":                    api.machines,
		"GET /v1/vms/{moid}/guestinfo":   api.onVM(guestInfo),
		"PATCH /v1/vms/{moid}/guestinfo": orderVM(api, setGuestInfo),
		"GET /v1/vms/{moid}/hardware":    api.onVM(api.hardware),
		"PUT /v1/vms/{moid}/guest":       orderVM(api, report),
		"POST /v1/vms/{moid}/power":      orderVM(api, api.power),
		"PUT /v1/vms/{moid}/question":    orderVM(api, ask),
		"POST /v1/vms/{moid}/copies":     orderVM(api, copies),
		"POST /v1/vms/{moid}/rename": orderVM(api, func(vm target, o nameOrder) (any, error) {
			return nil, api.rename(vm.Self, o)
		}),
		"POST /v1/vms/{moid}/move": orderVM(api, func(vm target, o moveOrder) (any, error) {
			return nil, api.move(vm.Self, o)
		}),

		// Disks.
		"POST /v1/vms/{moid}/disks":        orderVM(api, api.attachFile),
		"PUT /v1/vms/{moid}/disks/{id}":    api.onVM(api.attachDisk),
		"DELETE /v1/vms/{moid}/disks/{id}": api.onVM(api.detachDisk),
		"GET /v1/disks":                    look(func() any { return list("disks", api.Storage.FirstClassDisks(api.Fresh())) }),
		"POST /v1/disks":                   order(api.makeDisk),
		"DELETE /v1/disks/{id}":            api.deleteDisk,

		// The inventory, and what is left behind in it.
		"GET /v1/inventory":              look(api.inventorySeen),
		"GET /v1/orphans":                api.orphans,
		"DELETE /v1/orphans":             func(*http.Request) (any, error) { return nil, api.Storage.RemoveOrphans() },
		"POST /v1/folders":               order(api.makeFolder),
		"POST /v1/folders/{moid}/rename": orderFolder(api, api.rename),
		"POST /v1/folders/{moid}/move":   orderFolder(api, api.move),
		"DELETE /v1/folders/{moid}":      api.clear("Folder"),
		"DELETE /v1/pools/{moid}":        api.clear("ResourcePool"),
		"DELETE /v1/modules":             do(api.Inventory.Modules.Clear),
		"GET /v1/uploads":                look(func() any { return list("sessions", api.Library.UploadsSeen()) }),
		"POST /v1/uploads/expire":        do(api.Library.ExpireUploads),
	}
}

// cut closes every connection of vCenter's endpoint, refuses new ones for a while, and may lose all sessions, as a
// restart of vpxd does: VMs stay as they are.
func (api *API) cut(_ *http.Request, o cutOrder) (any, error) {
	return nil, api.Wire.WhileCut(func() {
		if o.Sessions {
			api.Wire.EndSessions()
		}
		select {
		case <-time.After(time.Duration(o.DownMs) * time.Millisecond):
		case <-api.Done:
		}
	})
}

func (api *API) addFault(_ *http.Request, rule faults.Rule) (any, error) {
	if err := api.Rules.Add(&rule); err != nil {
		return nil, invalid("%v", err)
	}
	return map[string]string{"id": rule.ID}, nil
}

// removeFault removes the fault that the path names, or all.
func (api *API) removeFault(r *http.Request) (any, error) {
	if id := r.PathValue("id"); !api.Rules.Remove(id) {
		return nil, notFound("fault %s does not exist", id)
	}
	return nil, nil
}

func (api *API) restore(*http.Request) (any, error) {
	if there, err := api.Backups.Restore(); there || err != nil {
		return nil, err
	}
	return nil, conflict("there is no backup")
}

// reconnect has the hosts connected again, by which vCenter finds the VMs that it does not know.
func (api *API) reconnect(*http.Request) (any, error) {
	if err := api.Backups.Discover(); err != nil {
		return nil, conflict("%v", err)
	}
	return nil, nil
}

// machines answers as soon as the table is newer than ?since, or after ?waitMs.
func (api *API) machines(r *http.Request) (any, error) {
	since, _ := strconv.ParseInt(r.URL.Query().Get("since"), 10, 64)
	wait, _ := strconv.Atoi(r.URL.Query().Get("waitMs"))
	ctx, cancel := context.WithTimeout(r.Context(), time.Duration(wait)*time.Millisecond)
	defer cancel()
	revision, rows := api.Machines.Since(ctx, since)
	return map[string]any{"revision": revision, "vms": rows}, nil
}

// rename gives a VM or a folder another name behind the client's back.
func (api *API) rename(this vim.Ref, o nameOrder) error {
	return api.behind(this, "Rename_Task", &types.Rename_Task{This: this, NewName: o.Name})
}

// move puts a VM, or a folder with all that is in it, into another folder. It keeps its id.
func (api *API) move(this vim.Ref, o moveOrder) error {
	parent := vim.Ref{Type: "Folder", Value: o.Folder}
	return api.behind(parent, "MoveIntoFolder_Task", &types.MoveIntoFolder_Task{This: parent, List: []vim.Ref{this}})
}

// orphans lists folders of datastores that belong to no VM, and tasks that still run.
func (api *API) orphans(*http.Request) (any, error) {
	ctx := api.Fresh()
	orphans, err := api.Storage.OrphanedFiles(ctx)
	if err != nil {
		return nil, err
	}
	return map[string]any{"files": orphans, "tasks": api.RunningTasks(ctx)}, nil
}

// makeFolder makes a folder of VMs.
func (api *API) makeFolder(_ *http.Request, o folderOrder) (any, error) {
	made, err := api.Inventory.MakeFolder(vim.Ref{Type: "Folder", Value: o.Parent}, o.Name)
	if err != nil {
		return nil, conflict("%v", err)
	}
	return map[string]string{"moid": made.Value}, nil
}

// clear destroys a folder or a pool with all that is in it.
func (api *API) clear(kind string) action {
	return func(r *http.Request) (any, error) {
		this := vim.Ref{Type: kind, Value: r.PathValue("moid")}
		if api.Registry.Get(this) == nil {
			return nil, notFound("%s %s does not exist", kind, this.Value)
		}
		if kind == "Folder" {
			api.clearBelow(this)
		}
		return nil, api.behind(this, "Destroy_Task", &types.Destroy_Task{This: this})
	}
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

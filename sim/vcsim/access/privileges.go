// Package access refuses calls for which the user lacks a privilege.
package access

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/core"
	"layercake.invalid/sim/vcsim/traffic"
	"layercake.invalid/sim/vcsim/vim"
)

// Privileges are those that the client's user lacks, on every object. A real vCenter has roles and permissions; what a
// client sees of them is which calls are refused, and what FetchUserPrivilegeOnEntities says.
type Privileges struct {
	*core.VCenter

	mu      sync.Mutex
	missing map[string]bool
}

// New gives all privileges.
func New(vc *core.VCenter) *Privileges { return &Privileges{VCenter: vc} }

// Set takes these privileges away and gives all others back.
func (p *Privileges) Set(ids []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.missing = map[string]bool{}
	for _, id := range ids {
		p.missing[id] = true
	}
}

// Lacks tells whether the user lacks the privilege.
func (p *Privileges) Lacks(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.missing[id]
}

// Methods are those that list what a user may do.
func (p *Privileges) Methods() map[string]core.Override {
	return map[string]core.Override{
		"FetchUserPrivilegeOnEntities": p.fetchPrivileges,
	}
}

// need is a privilege that a call needs on an object.
type need struct {
	privilege string
	on        vim.Ref
}

// ofMethod are the privileges that the VIM API's description gives a method on its own object.
var ofMethod = map[string]string{
	"CreateFolder": "Folder.Create", "CreateResourcePool": "Resource.CreatePool", "UpdateConfig": "Resource.EditPool",
	"UpgradeVM_Task": "VirtualMachine.Config.UpgradeVirtualHardware", "PromoteDisks_Task": "VirtualMachine.Provisioning.PromoteDisks",
	"CustomizeVM_Task": "VirtualMachine.Provisioning.Customize", "MarkAsTemplate": "VirtualMachine.Provisioning.MarkAsTemplate",
	"CreateSnapshot_Task": "VirtualMachine.State.CreateSnapshot", "AcquireTicket": "VirtualMachine.Interact.ConsoleInteract",
	"PowerOnVM_Task": "VirtualMachine.Interact.PowerOn", "PowerOffVM_Task": "VirtualMachine.Interact.PowerOff",
	"SuspendVM_Task": "VirtualMachine.Interact.Suspend", "ResetVM_Task": "VirtualMachine.Interact.Reset",
	"ShutdownGuest": "VirtualMachine.Interact.PowerOff", "StandbyGuest": "VirtualMachine.Interact.Suspend",
	"RebootGuest": "VirtualMachine.Interact.Reset", "PbmQueryProfile": "StorageProfile.View",
	"PbmRetrieveContent": "StorageProfile.View", "PbmCheckRequirements": "StorageProfile.View",
	"PbmQueryAssociatedProfiles": "StorageProfile.View",
}

// toDestroy is the privilege that Destroy_Task needs, by what is destroyed.
var toDestroy = map[string]string{
	"VirtualMachine": "VirtualMachine.Inventory.Delete", "Folder": "Folder.Delete", "ResourcePool": "Resource.DeletePool",
}

// toRename is the privilege that Rename_Task needs, by what is renamed.
var toRename = map[string]string{
	"VirtualMachine": "VirtualMachine.Config.Rename", "Folder": "Folder.Rename", "ResourcePool": "Resource.RenamePool",
}

// ofREST are the privileges of calls of the Automation API that are POSTed, by a part of their path and their action.
var ofREST = []struct{ path, action, privilege string }{
	{"/ovf/library-item", "deploy", "VApp.Import"},
	{"/ovf/library-item", "deploy", "VirtualMachine.Inventory.Create"},
	{"/ovf/library-item", "", "ContentLibrary.AddLibraryItem"},
	{"/ovf/library-item", "", "VApp.Export"},
	{"/download-session", "", "ContentLibrary.DownloadSession"},
	{"/downloadsession", "", "ContentLibrary.DownloadSession"},
	{"/subscribed-item", "sync", "ContentLibrary.SyncLibraryItem"},
	{"/library/item", "sync", "ContentLibrary.SyncLibraryItem"},
}

// needsOf are the privileges that a call needs, as the descriptions of its method and of the members of its spec have them.
func (p *Privileges) needsOf(k *core.Call, body types.AnyType) []need {
	var needs []need
	add := func(privilege string, on vim.Ref) {
		if privilege != "" {
			needs = append(needs, need{privilege, on})
		}
	}
	add(ofMethod[k.Name], k.This)
	switch r := body.(type) {
	case *types.Rename_Task:
		add(toRename[k.This.Type], k.This)
	case *types.Destroy_Task:
		add(toDestroy[k.This.Type], k.This)
	case *types.ReconfigVM_Task:
		for _, privilege := range ofConfig(&r.Spec) {
			add(privilege, k.This)
		}
	case *types.CloneVM_Task:
		source := "VirtualMachine.Provisioning.Clone"
		if vm, ok := p.Registry.Get(k.This).(*simulator.VirtualMachine); ok && vm.Config != nil && vm.Config.Template {
			source = "VirtualMachine.Provisioning.DeployTemplate"
		}
		add(source, k.This)
		add("VirtualMachine.Inventory.CreateFromExisting", r.Folder)
		if pool := r.Spec.Location.Pool; pool != nil {
			add("Resource.AssignVMToPool", *pool)
		}
		if datastore := r.Spec.Location.Datastore; datastore != nil {
			add("Datastore.AllocateSpace", *datastore)
		}
		if r.Spec.Customization != nil {
			add("VirtualMachine.Provisioning.Customize", k.This)
		}
		if r.Spec.PowerOn {
			add("VirtualMachine.Interact.PowerOn", r.Folder)
		}
		for _, privilege := range ofDevices(r.Spec.Location.DeviceChange) {
			add(privilege, r.Folder)
		}
		if r.Spec.Config != nil {
			for _, privilege := range ofConfig(r.Spec.Config) {
				add(privilege, r.Folder)
			}
		}
	}
	return needs
}

// ofConfig are the privileges that the members of a specification need which are set.
func ofConfig(spec *types.VirtualMachineConfigSpec) []string {
	set := map[string]bool{
		"VirtualMachine.Config.CPUCount":       spec.NumCPUs != 0,
		"VirtualMachine.Config.Memory":         spec.MemoryMB != 0,
		"VirtualMachine.Config.Resource":       spec.CpuAllocation != nil || spec.MemoryAllocation != nil,
		"VirtualMachine.Config.AdvancedConfig": len(spec.ExtraConfig) > 0,
		"VirtualMachine.Config.ManagedBy":      spec.ManagedBy != nil,
		"VirtualMachine.Config.ChangeTracking": spec.ChangeTrackingEnabled != nil,
		"VirtualMachine.Config.Settings":       spec.GuestId != "" || spec.Flags != nil || spec.Uuid != "" || spec.InstanceUuid != "",
		"VApp.ApplicationConfig":               spec.VAppConfig != nil || spec.VAppConfigRemoved != nil && *spec.VAppConfigRemoved,
	}
	needed := ofDevices(spec.DeviceChange)
	for _, privilege := range slices.Sorted(maps.Keys(set)) {
		if set[privilege] {
			needed = append(needed, privilege)
		}
	}
	return needed
}

// ofDevices are the privileges that changes of devices need.
func ofDevices(changes []types.BaseVirtualDeviceConfigSpec) (needed []string) {
	for _, change := range changes {
		c := change.GetVirtualDeviceConfigSpec()
		_, isDisk := c.Device.(*types.VirtualDisk)
		_, isNIC := c.Device.(types.BaseVirtualEthernetCard)
		privilege := "VirtualMachine.Config.AddRemoveDevice"
		switch {
		case isDisk && c.Operation == types.VirtualDeviceConfigSpecOperationAdd:
			privilege = "VirtualMachine.Config.AddNewDisk"
		case isDisk && c.Operation == types.VirtualDeviceConfigSpecOperationRemove:
			privilege = "VirtualMachine.Config.RemoveDisk"
		case isDisk:
			privilege = "VirtualMachine.Config.DiskExtend"
		case c.Operation == types.VirtualDeviceConfigSpecOperationEdit:
			privilege = "VirtualMachine.Config.EditDevice"
		}
		needed = append(needed, privilege)
		if isNIC && c.Operation != types.VirtualDeviceConfigSpecOperationRemove {
			needed = append(needed, "Network.Assign")
		}
	}
	return needed
}

// Refuses is the fault of a call whose user lacks a privilege.
func (p *Privileges) Refuses(k *core.Call, body types.AnyType) soap.HasFault {
	for _, n := range p.needsOf(k, body) {
		if p.Lacks(n.privilege) {
			return vim.FaultBody("Permission to perform this operation was denied.",
				&types.NoPermission{Object: &n.on, PrivilegeId: n.privilege})
		}
	}
	return nil
}

// RefusesREST answers a call of the Automation API whose user lacks a privilege; it tells whether it did.
func (p *Privileges) RefusesREST(out *traffic.Answer, r *http.Request) bool {
	action := r.URL.Query().Get("~action") + r.URL.Query().Get("action")
	for _, of := range ofREST {
		meant := r.Method == http.MethodPost && strings.Contains(r.URL.Path, of.path) && action == of.action
		if !meant || !p.Lacks(of.privilege) {
			continue
		}
		Denied(out, strings.HasPrefix(r.URL.Path, "/rest"), of.privilege)
		return true
	}
	return false
}

// Denied is the answer to a user who lacks a privilege.
func Denied(out *traffic.Answer, old bool, privilege string) {
	message := map[string]any{
		"id": "vapi.security.authorization.denied", "args": []string{privilege},
		"default_message": "Permission to perform this operation was denied: " + privilege,
	}
	if old {
		traffic.WriteJSON(out, http.StatusForbidden, map[string]any{
			"type": "com.vmware.vapi.std.errors.unauthorized", "value": map[string]any{"messages": []any{message}},
		})
		return
	}
	traffic.WriteJSON(out, http.StatusForbidden, map[string]any{"error_type": "UNAUTHORIZED", "messages": []any{message}})
}

// fetchPrivileges answers with what the user has: all that an administrator has, but for what was taken away. An object
// that the user may not even see fails the call, as vCenter has it.
func (p *Privileges) fetchPrivileges(ctx *simulator.Context, k *core.Call, body types.AnyType) soap.HasFault {
	res := p.Invoke(ctx, k.This, k.Name, body)
	fetched, ok := res.(*methods.FetchUserPrivilegeOnEntitiesBody)
	if !ok || fetched.Res == nil {
		return res
	}
	for i := range fetched.Res.Returnval {
		if p.Registry.Get(fetched.Res.Returnval[i].Entity) == nil {
			return vim.Gone(fetched.Res.Returnval[i].Entity)
		}
		held := slices.Clone(fetched.Res.Returnval[i].Privileges)
		fetched.Res.Returnval[i].Privileges = slices.DeleteFunc(held, p.Lacks)
	}
	return res
}

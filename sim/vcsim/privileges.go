package main

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
)

// privileges are those that the client's user lacks, on every object. A real vCenter has roles and permissions; what a
// client sees of them is which calls are refused, and what FetchUserPrivilegeOnEntities says.
type privileges struct {
	mu      sync.Mutex
	missing map[string]bool
}

func (p *privileges) set(ids []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.missing = map[string]bool{}
	for _, id := range ids {
		p.missing[id] = true
	}
}

func (p *privileges) lacks(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.missing[id]
}

// accessMethods are those that list what a user may do.
func (s *Sim) accessMethods() map[string]override {
	return map[string]override{
		"FetchUserPrivilegeOnEntities": s.fetchPrivileges,
	}
}

// need is a privilege that a call needs on an object.
type need struct {
	privilege string
	on        ref
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
func (s *Sim) needsOf(k *call, body types.AnyType) []need {
	var needs []need
	add := func(privilege string, on ref) {
		if privilege != "" {
			needs = append(needs, need{privilege, on})
		}
	}
	add(ofMethod[k.name], k.this)
	switch r := body.(type) {
	case *types.Rename_Task:
		add(toRename[k.this.Type], k.this)
	case *types.Destroy_Task:
		add(toDestroy[k.this.Type], k.this)
	case *types.ReconfigVM_Task:
		for _, privilege := range ofConfig(&r.Spec) {
			add(privilege, k.this)
		}
	case *types.CloneVM_Task:
		source := "VirtualMachine.Provisioning.Clone"
		if vm, ok := s.registry.Get(k.this).(*simulator.VirtualMachine); ok && vm.Config != nil && vm.Config.Template {
			source = "VirtualMachine.Provisioning.DeployTemplate"
		}
		add(source, k.this)
		add("VirtualMachine.Inventory.CreateFromExisting", r.Folder)
		if pool := r.Spec.Location.Pool; pool != nil {
			add("Resource.AssignVMToPool", *pool)
		}
		if datastore := r.Spec.Location.Datastore; datastore != nil {
			add("Datastore.AllocateSpace", *datastore)
		}
		if r.Spec.Customization != nil {
			add("VirtualMachine.Provisioning.Customize", k.this)
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

// refuses is the fault of a call whose user lacks a privilege.
func (s *Sim) refuses(k *call, body types.AnyType) soap.HasFault {
	for _, n := range s.needsOf(k, body) {
		if s.privileges.lacks(n.privilege) {
			return faultBody("Permission to perform this operation was denied.",
				&types.NoPermission{Object: &n.on, PrivilegeId: n.privilege})
		}
	}
	return nil
}

// refusesREST answers a call of the Automation API whose user lacks a privilege; it tells whether it did.
func (s *Sim) refusesREST(out *answer, r *http.Request) bool {
	action := r.URL.Query().Get("~action") + r.URL.Query().Get("action")
	for _, of := range ofREST {
		meant := r.Method == http.MethodPost && strings.Contains(r.URL.Path, of.path) && action == of.action
		if !meant || !s.privileges.lacks(of.privilege) {
			continue
		}
		denied(out, strings.HasPrefix(r.URL.Path, "/rest"), of.privilege)
		return true
	}
	return false
}

// denied is the answer to a user who lacks a privilege.
func denied(out *answer, old bool, privilege string) {
	message := map[string]any{
		"id": "vapi.security.authorization.denied", "args": []string{privilege},
		"default_message": "Permission to perform this operation was denied: " + privilege,
	}
	if old {
		writeJSON(out, http.StatusForbidden, map[string]any{
			"type": "com.vmware.vapi.std.errors.unauthorized", "value": map[string]any{"messages": []any{message}},
		})
		return
	}
	writeJSON(out, http.StatusForbidden, map[string]any{"error_type": "UNAUTHORIZED", "messages": []any{message}})
}

// fetchPrivileges answers with what the user has: all that an administrator has, but for what was taken away. An object
// that the user may not even see fails the call, as vCenter has it.
func (s *Sim) fetchPrivileges(ctx *simulator.Context, k *call, body types.AnyType) soap.HasFault {
	res := s.invoke(ctx, k.this, k.name, body)
	fetched, ok := res.(*methods.FetchUserPrivilegeOnEntitiesBody)
	if !ok || fetched.Res == nil {
		return res
	}
	for i := range fetched.Res.Returnval {
		if s.registry.Get(fetched.Res.Returnval[i].Entity) == nil {
			return faultBody("The object has already been deleted or has not been completely created",
				&types.ManagedObjectNotFound{Obj: fetched.Res.Returnval[i].Entity})
		}
		held := slices.Clone(fetched.Res.Returnval[i].Privileges)
		fetched.Res.Returnval[i].Privileges = slices.DeleteFunc(held, s.privileges.lacks)
	}
	return res
}

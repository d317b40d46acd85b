package control

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/compute"
	"layercake.invalid/sim/vcsim/core"
	"layercake.invalid/sim/vcsim/vim"
)

// controlVM finds the VM that the path names.
func (api *API) controlVM(r *http.Request) (*simulator.Context, *simulator.VirtualMachine, error) {
	ctx := api.Fresh()
	vm, ok := api.VMOf(ctx, r.PathValue("moid"))
	if !ok {
		return nil, nil, refuse(http.StatusNotFound, "VM %s does not exist", r.PathValue("moid"))
	}
	return ctx, vm, nil
}

func (api *API) controlGuestInfo(r *http.Request) (any, error) {
	ctx, vm, err := api.controlVM(r)
	if err != nil {
		return nil, err
	}
	info := map[string]string{}
	ctx.WithLock(vm, func() {
		for _, o := range vm.Config.ExtraConfig {
			if option := o.GetOptionValue(); strings.HasPrefix(option.Key, "guestinfo.") {
				info[option.Key] = fmt.Sprint(option.Value)
			}
		}
	})
	return info, nil
}

// controlSetGuestInfo is the guest's rpctool: null takes a key away.
func (api *API) controlSetGuestInfo(r *http.Request) (any, error) {
	ctx, vm, err := api.controlVM(r)
	if err != nil {
		return nil, err
	}
	var patch map[string]*string
	if err := decodeStrict(r, &patch); err != nil {
		return nil, err
	}
	for key := range patch {
		if !strings.HasPrefix(key, "guestinfo.") {
			return nil, refuse(http.StatusBadRequest, "%s: a guest sets only keys that begin with guestinfo.", key)
		}
	}
	ctx.WithLock(vm, func() {
		var options []types.BaseOptionValue
		for _, o := range vm.Config.ExtraConfig {
			if _, replaced := patch[o.GetOptionValue().Key]; !replaced {
				options = append(options, o)
			}
		}
		for key, value := range patch {
			if value != nil {
				options = append(options, &types.OptionValue{Key: key, Value: *value})
			}
		}
		ctx.Update(vm, []types.PropertyChange{
			{Name: "config.extraConfig", Val: options},
			{Name: "config.changeVersion", Val: vim.ChangeVersion()},
		})
	})
	return nil, nil
}

// controlGuest reports guest facts as VMware Tools would. A member that is left out keeps its value.
func (api *API) controlGuest(r *http.Request) (any, error) {
	ctx, vm, err := api.controlVM(r)
	if err != nil {
		return nil, err
	}
	var raw map[string]any
	if err := decodeStrict(r, &raw); err != nil {
		return nil, err
	}
	ctx.WithLock(vm, func() {
		if vm.Runtime.PowerState != types.VirtualMachinePowerStatePoweredOn {
			err = refuse(http.StatusConflict, "VM %s is %s: only a running guest has facts", vm.Name, vm.Runtime.PowerState)
			return
		}
		facts := compute.GuestFacts{IP: vm.Guest.IpAddress, Host: vm.Guest.HostName, Tools: compute.ToolsRunning(vm)}
		for key, value := range raw {
			text, isText := value.(string)
			running, isBool := value.(bool)
			switch {
			case key == "ip" && (isText || value == nil):
				facts.IP = text
			case key == "hostName" && (isText || value == nil):
				facts.Host = text
			case key == "heartbeat" && slices.Contains([]string{"gray", "red", "yellow", "green"}, text):
				facts.Heartbeat = text
			case key == "toolsRunning" && isBool:
				facts.Tools = running
			default:
				err = refuse(http.StatusBadRequest, "%s: unknown or of the wrong type", key)
				return
			}
		}
		ctx.Update(vm, facts.Changes(ctx, vm))
	})
	return nil, err
}

// controlPower acts on a VM behind the client's back.
func (api *API) controlPower(r *http.Request) (any, error) {
	ctx, vm, err := api.controlVM(r)
	if err != nil {
		return nil, err
	}
	var request struct {
		Action string `json:"action"`
	}
	if err := decodeStrict(r, &request); err != nil {
		return nil, err
	}
	this := vm.Self
	var method string
	var body types.AnyType
	switch request.Action {
	case "on":
		method, body = "PowerOnVM_Task", &types.PowerOnVM_Task{This: this}
	case "off":
		method, body = "PowerOffVM_Task", &types.PowerOffVM_Task{This: this}
	case "reset":
		method, body = "ResetVM_Task", &types.ResetVM_Task{This: this}
	case "unregister":
		api.forceOff(this)
		method, body = "UnregisterVM", &types.UnregisterVM{This: this}
	case "destroy":
		api.forceOff(this)
		method, body = "Destroy_Task", &types.Destroy_Task{This: this}
	default:
		return nil, refuse(http.StatusBadRequest, "action %q: must be on, off, reset, destroy or unregister", request.Action)
	}
	if _, fault := api.Follow(api.Carry(ctx, &core.Call{Name: method, This: this}, body)); fault != nil {
		return nil, refuse(http.StatusConflict, "VM %s: %s: %s", this.Value, request.Action, vim.FaultText(fault))
	}
	return nil, nil
}

func (api *API) forceOff(this vim.Ref) {
	_, _ = api.Follow(api.Compute.PowerOff(api.Fresh(), nil, &types.PowerOffVM_Task{This: this}))
}

// InventoryVM is a VM as an administrator sees it.
type InventoryVM struct {
	core.Machine
	Pool              string     `json:"pool"`
	Host              string     `json:"host"`
	ManagedBy         string     `json:"managedBy"`
	ManagedByType     string     `json:"managedByType"`
	Annotation        string     `json:"annotation"`
	NumCPUs           int32      `json:"numCPUs"`
	MemoryMB          int32      `json:"memoryMB"`
	CPUReservation    int64      `json:"cpuReservation"`
	CPULimit          int64      `json:"cpuLimit"`
	MemoryReservation int64      `json:"memoryReservation"`
	MemoryLimit       int64      `json:"memoryLimit"`
	StorageProfiles   []string   `json:"storageProfiles"` // of its home
	DiskProfiles      [][]string `json:"diskProfiles"`    // of its disks, in their order
	Disks             []DiskSeen `json:"disks"`
	Linked            bool       `json:"linked"`
	Broken            bool       `json:"broken"` // a disk of it, or one that it rests on, is gone
	IP                string     `json:"ip"`
	ConnectionState   string     `json:"connectionState"`
	Networks          []string   `json:"networks"` // of its adapters
	ExtraConfigKeys   []string   `json:"extraConfigKeys"`
}

// InventoryNode is a folder or a pool.
type InventoryNode struct {
	MoID   string `json:"moid"`
	Name   string `json:"name"`
	Parent string `json:"parent"`
}

// controlInventory lists what an administrator would look for when something was left behind.
func (api *API) controlInventory(*http.Request) (any, error) {
	ctx := api.Fresh()
	rows := api.Machines.All()
	vms := make([]InventoryVM, 0, len(rows))
	for _, row := range rows {
		if vm, ok := api.VMOf(ctx, row.MoID); ok {
			seen := describe(ctx, vm, row)
			seen.StorageProfiles = append([]string{}, api.Machines.ProfilesOf(vm.Self).Home...)
			seen.DiskProfiles = api.Compute.DiskProfiles(vm.Self)
			seen.Broken = api.Storage.LacksFiles(ctx, vm)
			vms = append(vms, seen)
		}
	}
	return map[string]any{
		"vms": vms, "folders": api.nodes(ctx, "Folder"), "pools": api.nodes(ctx, "ResourcePool"), "modules": api.Inventory.ModulesSeen(),
	}, nil
}

func describe(ctx *simulator.Context, vm *simulator.VirtualMachine, row core.Machine) InventoryVM {
	out := InventoryVM{Machine: row, Networks: []string{}, ExtraConfigKeys: []string{}}
	ctx.WithLock(vm, func() {
		if vm.ResourcePool != nil {
			out.Pool = vm.ResourcePool.Value
		}
		if vm.Runtime.Host != nil {
			out.Host = vm.Runtime.Host.Value
		}
		if m := vm.Config.ManagedBy; m != nil {
			out.ManagedBy, out.ManagedByType = m.ExtensionKey, m.Type
		}
		out.Annotation = vm.Config.Annotation
		out.ConnectionState = string(vm.Runtime.ConnectionState)
		out.NumCPUs, out.MemoryMB = vm.Config.Hardware.NumCPU, vm.Config.Hardware.MemoryMB
		out.CPUReservation, out.CPULimit = vim.Allocation(vm.Config.CpuAllocation)
		out.MemoryReservation, out.MemoryLimit = vim.Allocation(vm.Config.MemoryAllocation)
		out.Disks = disksOf(vm)
		_, bases := vim.FilesOf(vm)
		out.Linked = len(bases) != 0
		if vm.Guest != nil {
			out.IP = vm.Guest.IpAddress
		}
		for _, device := range vm.Config.Hardware.Device {
			if adapter, ok := device.(types.BaseVirtualEthernetCard); ok {
				out.Networks = append(out.Networks, vim.NetworkName(ctx, adapter.GetVirtualEthernetCard()))
			}
		}
		for _, o := range vm.Config.ExtraConfig {
			out.ExtraConfigKeys = append(out.ExtraConfigKeys, o.GetOptionValue().Key)
		}
	})
	slices.Sort(out.ExtraConfigKeys)
	return out
}

func (api *API) nodes(ctx *simulator.Context, kind string) []InventoryNode {
	nodes := []InventoryNode{}
	for _, e := range ctx.Map.All(kind) {
		ctx.WithLock(e, func() {
			node := InventoryNode{MoID: e.Reference().Value, Name: e.Entity().Name}
			if p := e.Entity().Parent; p != nil {
				node.Parent = p.Value
			}
			nodes = append(nodes, node)
		})
	}
	slices.SortFunc(nodes, func(a, b InventoryNode) int { return strings.Compare(a.MoID, b.MoID) })
	return nodes
}

// controlSessions lists the tokens of all sessions that were ever opened: none of them may be in anybody's log.
func (api *API) controlSessions(*http.Request) (any, error) {
	return map[string]any{"tokens": api.Wire.Issued.All()}, nil
}

// controlExpire ends every session of a client.
func (api *API) controlExpire(*http.Request) (any, error) {
	return map[string]int{"expired": api.Wire.EndSessions()}, nil
}

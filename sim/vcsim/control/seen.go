package control

import (
	"slices"
	"strings"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/core"
	"layercake.invalid/sim/vcsim/vim"
)

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

// inventorySeen lists VMs, folders, pools and modules, so that tests find leftovers.
func (api *API) inventorySeen() any {
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
	}
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
		for _, adapter := range vim.Adapters(vm.Config.Hardware.Device) {
			out.Networks = append(out.Networks, vim.NetworkName(ctx, adapter))
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

// DiskSeen is a disk of a VM as an administrator sees it.
type DiskSeen struct {
	File        string `json:"file"`
	CapacityMiB int64  `json:"capacityMiB"`
}

// disksOf is called with the VM locked.
func disksOf(vm *simulator.VirtualMachine) []DiskSeen {
	disks := []DiskSeen{}
	for _, disk := range vim.Disks(vm.Config.Hardware.Device) {
		seen := DiskSeen{CapacityMiB: max(disk.CapacityInBytes>>20, disk.CapacityInKB>>10)}
		if backing, ok := disk.Backing.(*types.VirtualDiskFlatVer2BackingInfo); ok {
			seen.File = backing.FileName
		}
		disks = append(disks, seen)
	}
	return disks
}

// Hardware is what a hypervisor needs to run a VM.
type Hardware struct {
	NumCPUs  int32  `json:"numCPUs"`
	MemoryMB int32  `json:"memoryMB"`
	Firmware string `json:"firmware"`
	// The name of the library's item that the first disk is a copy of; empty where it is a copy of none.
	Image string           `json:"image"`
	Disks []core.GuestDisk `json:"disks"`
	NICs  []guestNIC       `json:"nics"`
}

// guestNIC is a network adapter.
type guestNIC struct {
	MAC       string `json:"mac"`
	Network   string `json:"network"`
	Connected bool   `json:"connected"`
}

// hardware is what a powered-on VM is made of.
func (api *API) hardware(vm target) (any, error) {
	out := Hardware{Image: api.Compute.Images.Get(vm.Self), NICs: []guestNIC{}}
	vm.locked(func() {
		out.NumCPUs, out.MemoryMB = vm.Config.Hardware.NumCPU, vm.Config.Hardware.MemoryMB
		out.Firmware = vm.Config.Firmware
		out.Disks = core.GuestDisks(vm.VirtualMachine)
		for _, adapter := range vim.Adapters(vm.Config.Hardware.Device) {
			out.NICs = append(out.NICs, guestNIC{
				MAC: adapter.MacAddress, Network: vim.NetworkName(vm.ctx, adapter),
				Connected: adapter.Connectable == nil || adapter.Connectable.StartConnected,
			})
		}
	})
	return out, nil
}

package control

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/vim"
)

// firstCopy keeps the morefs of copies apart from the library's.
const firstCopy = 1_000_000

// VMCopy is what its owner needs to know of a VM that came to be without him.
type VMCopy struct {
	Name string `json:"name"`
	MoID string `json:"moid"`
	UUID string `json:"uuid"`
	IP   string `json:"ip"`
}

// copies puts copies of a VM beside it, ten thousand in a second: an inventory that a client finds when it comes.
//
// A copy has a name, UUIDs and, if the original has one, an address of its own, which also stand for the original's in its
// ExtraConfig. It shares everything else with the original, so that it is there to be read and not to be changed.
func copies(vm target, order copiesOrder) (any, error) {
	if order.Count < 1 || order.Prefix == "" {
		return nil, invalid("count and prefix must be given")
	}
	folder, ok := vm.ctx.Map.Get(*vm.Parent).(*simulator.Folder)
	if !ok {
		return nil, conflict("VM %s is in no folder", vm.Name)
	}
	made := make([]VMCopy, order.Count)
	address, _ := netip.ParseAddr(vm.Guest.IpAddress)
	for i := range made {
		address = address.Next()
		one := copyOf(vm.VirtualMachine, fmt.Sprintf("%s-%05d", order.Prefix, i), fmt.Sprintf("vm-%d", firstCopy+i), address)
		made[i] = VMCopy{Name: one.Name, MoID: one.Self.Value, UUID: one.Config.Uuid, IP: one.Guest.IpAddress}
		show(vm.ctx, folder, one)
	}
	return made, nil
}

// show enters a VM into the inventory as the library does, but for the references of host and pool.
func show(ctx *simulator.Context, folder *simulator.Folder, vm *simulator.VirtualMachine) {
	ctx.Map.AppendReference(ctx, folder, &folder.ChildEntity, vm.Self)
	ctx.Map.PutEntity(folder, vm)
	ctx.WithLock(vm, func() { ctx.Update(vm, []types.PropertyChange{vim.Change("name", vm.Name)}) })
}

func copyOf(vm *simulator.VirtualMachine, name, moid string, address netip.Addr) *simulator.VirtualMachine {
	uuid := vim.NewUUID()
	names := []string{vm.Name, name, vm.Config.InstanceUuid, uuid, vm.Config.Uuid, uuid}
	if address.IsValid() {
		names = append(names, vm.Guest.IpAddress, address.String())
	}
	rename := strings.NewReplacer(names...)
	config := *vm.Config
	config.Name, config.Uuid, config.InstanceUuid = name, uuid, uuid
	config.ExtraConfig = make([]types.BaseOptionValue, len(vm.Config.ExtraConfig))
	for i, o := range vm.Config.ExtraConfig {
		option := *o.GetOptionValue()
		if text, ok := option.Value.(string); ok {
			option.Value = rename.Replace(text)
		}
		config.ExtraConfig[i] = &option
	}
	out := &simulator.VirtualMachine{VirtualMachine: vm.VirtualMachine}
	out.Self = vim.Ref{Type: "VirtualMachine", Value: moid}
	out.Name, out.Config = name, &config
	if address.IsValid() {
		out.Guest = guestAt(vm.Guest, address.String())
		out.Summary.Guest = summaryAt(vm.Summary.Guest, address.String())
	}
	out.Summary.Vm = &out.Self
	out.Summary.Config.Name, out.Summary.Config.Uuid, out.Summary.Config.InstanceUuid = name, uuid, uuid
	return out
}

// guestAt copies the report of a guest, with another address.
func guestAt(guest *types.GuestInfo, address string) *types.GuestInfo {
	own := func(all []string) []string {
		all = slices.Clone(all)
		for i, one := range all {
			if one == guest.IpAddress {
				all[i] = address
			}
		}
		return all
	}
	out := *guest
	out.IpAddress = address
	out.Net = slices.Clone(guest.Net)
	for i := range out.Net {
		nic := &out.Net[i]
		nic.IpAddress = own(nic.IpAddress)
		if nic.IpConfig == nil {
			continue
		}
		config := *nic.IpConfig
		config.IpAddress = slices.Clone(config.IpAddress)
		for i := range config.IpAddress {
			if config.IpAddress[i].IpAddress == guest.IpAddress {
				config.IpAddress[i].IpAddress = address
			}
		}
		nic.IpConfig = &config
	}
	return &out
}

func summaryAt(summary *types.VirtualMachineGuestSummary, address string) *types.VirtualMachineGuestSummary {
	if summary == nil {
		return nil
	}
	out := *summary
	out.IpAddress = address
	return &out
}

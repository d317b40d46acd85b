package compute

import (
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/vim"
)

// GuestFacts are what VMware Tools report of a guest.
type GuestFacts struct {
	IP, Host  string
	Tools     bool
	Heartbeat string // gray, red, yellow or green; empty goes with the tools
}

// ToolsRunning tells whether the guest of a VM, whose lock is held, reports.
func ToolsRunning(vm *simulator.VirtualMachine) bool {
	return vm.Guest != nil && vm.Guest.ToolsRunningStatus == string(types.VirtualMachineToolsRunningStatusGuestToolsRunning)
}

// Changes spread the facts over all the properties in which vCenter shows them.
func (f GuestFacts) Changes(ctx *simulator.Context, vm *simulator.VirtualMachine) []types.PropertyChange {
	running := types.VirtualMachineToolsRunningStatusGuestToolsNotRunning
	status := types.VirtualMachineToolsStatusToolsNotRunning
	state := types.VirtualMachineGuestStateNotRunning
	heartbeat := types.ManagedEntityStatusGray
	if f.Tools {
		running = types.VirtualMachineToolsRunningStatusGuestToolsRunning
		status = types.VirtualMachineToolsStatusToolsOk
		state = types.VirtualMachineGuestStateRunning
		heartbeat = types.ManagedEntityStatusGreen
	}
	if f.Heartbeat != "" {
		heartbeat = types.ManagedEntityStatus(f.Heartbeat)
	}
	return []types.PropertyChange{
		{Name: "guest.ipAddress", Val: f.IP},
		{Name: "guest.hostName", Val: f.Host},
		{Name: "guest.toolsRunningStatus", Val: string(running)},
		{Name: "guest.toolsStatus", Val: status},
		{Name: "guest.guestState", Val: string(state)},
		{Name: "guest.net", Val: f.nics(ctx, vm)},
		{Name: "guestHeartbeatStatus", Val: heartbeat},
		{Name: "summary.guest.ipAddress", Val: f.IP},
		{Name: "summary.guest.hostName", Val: f.Host},
		{Name: "summary.guest.toolsStatus", Val: status},
		{Name: "summary.guest.toolsRunningStatus", Val: string(running)},
	}
}

// nics are the adapters that the guest reports: none without Tools.
func (f GuestFacts) nics(ctx *simulator.Context, vm *simulator.VirtualMachine) []types.GuestNicInfo {
	if !f.Tools {
		return []types.GuestNicInfo{}
	}
	return f.adapters(ctx, vm)
}

// adapters have the address on the first one; the others are there without one.
func (f GuestFacts) adapters(ctx *simulator.Context, vm *simulator.VirtualMachine) []types.GuestNicInfo {
	nics := []types.GuestNicInfo{}
	for _, adapter := range vim.Adapters(vm.Config.Hardware.Device) {
		nic := types.GuestNicInfo{
			Network:        vim.NetworkName(ctx, adapter),
			MacAddress:     adapter.MacAddress,
			Connected:      true,
			DeviceConfigId: adapter.Key,
		}
		if len(nics) == 0 && f.IP != "" {
			nic.IpAddress = []string{f.IP}
			nic.IpConfig = &types.NetIpConfigInfo{IpAddress: []types.NetIpConfigInfoIpAddress{{
				IpAddress: f.IP, PrefixLength: 16, State: string(types.NetIpConfigInfoIpAddressStatusPreferred),
			}}}
		}
		nics = append(nics, nic)
	}
	return nics
}

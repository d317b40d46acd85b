package main

import (
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// guestFacts are what VMware Tools report of a guest.
type guestFacts struct {
	ip, host  string
	tools     bool
	heartbeat string // gray, red, yellow or green; empty goes with the tools
}

func toolsRunning(vm *simulator.VirtualMachine) bool {
	return vm.Guest != nil && vm.Guest.ToolsRunningStatus == string(types.VirtualMachineToolsRunningStatusGuestToolsRunning)
}

// changes spread the facts over all the properties in which vCenter shows them.
func (f guestFacts) changes(ctx *simulator.Context, vm *simulator.VirtualMachine) []types.PropertyChange {
	running := types.VirtualMachineToolsRunningStatusGuestToolsNotRunning
	status := types.VirtualMachineToolsStatusToolsNotRunning
	state := types.VirtualMachineGuestStateNotRunning
	heartbeat := types.ManagedEntityStatusGray
	if f.tools {
		running = types.VirtualMachineToolsRunningStatusGuestToolsRunning
		status = types.VirtualMachineToolsStatusToolsOk
		state = types.VirtualMachineGuestStateRunning
		heartbeat = types.ManagedEntityStatusGreen
	}
	if f.heartbeat != "" {
		heartbeat = types.ManagedEntityStatus(f.heartbeat)
	}
	return []types.PropertyChange{
		{Name: "guest.ipAddress", Val: f.ip},
		{Name: "guest.hostName", Val: f.host},
		{Name: "guest.toolsRunningStatus", Val: string(running)},
		{Name: "guest.toolsStatus", Val: status},
		{Name: "guest.guestState", Val: string(state)},
		{Name: "guest.net", Val: f.nics(ctx, vm)},
		{Name: "guestHeartbeatStatus", Val: heartbeat},
		{Name: "summary.guest.ipAddress", Val: f.ip},
		{Name: "summary.guest.hostName", Val: f.host},
		{Name: "summary.guest.toolsStatus", Val: status},
		{Name: "summary.guest.toolsRunningStatus", Val: string(running)},
	}
}

// nics are the adapters that the guest reports: none without Tools.
func (f guestFacts) nics(ctx *simulator.Context, vm *simulator.VirtualMachine) []types.GuestNicInfo {
	if !f.tools {
		return []types.GuestNicInfo{}
	}
	return f.adapters(ctx, vm)
}

// adapters have the address on the first one; the others are there without one.
func (f guestFacts) adapters(ctx *simulator.Context, vm *simulator.VirtualMachine) []types.GuestNicInfo {
	nics := []types.GuestNicInfo{}
	for _, device := range vm.Config.Hardware.Device {
		adapter, ok := device.(types.BaseVirtualEthernetCard)
		if !ok {
			continue
		}
		ethernet := adapter.GetVirtualEthernetCard()
		nic := types.GuestNicInfo{
			Network:        networkName(ctx, ethernet),
			MacAddress:     ethernet.MacAddress,
			Connected:      true,
			DeviceConfigId: ethernet.Key,
		}
		if len(nics) == 0 && f.ip != "" {
			nic.IpAddress = []string{f.ip}
			nic.IpConfig = &types.NetIpConfigInfo{IpAddress: []types.NetIpConfigInfoIpAddress{{
				IpAddress: f.ip, PrefixLength: 16, State: string(types.NetIpConfigInfoIpAddressStatusPreferred),
			}}}
		}
		nics = append(nics, nic)
	}
	return nics
}

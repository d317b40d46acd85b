package control

import (
	"net/http"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/core"
	"layercake.invalid/sim/vcsim/vim"
)

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

// controlHardware is what a powered-on VM is made of.
func (api *API) controlHardware(r *http.Request) (any, error) {
	ctx, vm, err := api.controlVM(r)
	if err != nil {
		return nil, err
	}
	out := Hardware{Image: api.Compute.Images.Get(vm.Self), NICs: []guestNIC{}}
	ctx.WithLock(vm, func() {
		out.NumCPUs, out.MemoryMB = vm.Config.Hardware.NumCPU, vm.Config.Hardware.MemoryMB
		out.Firmware = vm.Config.Firmware
		out.Disks = core.GuestDisks(vm)
		out.NICs = append(out.NICs, guestNICs(ctx, vm)...)
	})
	return out, nil
}

// guestNICs are the adapters of a VM whose lock is held.
func guestNICs(ctx *simulator.Context, vm *simulator.VirtualMachine) (nics []guestNIC) {
	for _, device := range vm.Config.Hardware.Device {
		adapter, ok := device.(types.BaseVirtualEthernetCard)
		if !ok {
			continue
		}
		ethernet := adapter.GetVirtualEthernetCard()
		nics = append(nics, guestNIC{
			MAC: ethernet.MacAddress, Network: vim.NetworkName(ctx, ethernet),
			Connected: ethernet.Connectable == nil || ethernet.Connectable.StartConnected,
		})
	}
	return nics
}

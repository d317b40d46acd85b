package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/vmware/govmomi/ovf"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// images knows of which item of a content library the first disk of a VM is a copy: the library makes empty files.
type images struct {
	mu sync.Mutex
	of map[ref]string
}

func (i *images) set(vm ref, item string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if item == "" {
		return
	}
	if i.of == nil {
		i.of = map[ref]string{}
	}
	i.of[vm] = item
}

func (i *images) get(vm ref) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.of[vm]
}

const deployPath = "/rest/com/vmware/vcenter/ovf/library-item/id:"

// noteImage keeps the name of the item that a VM was deployed from.
func (s *Sim) noteImage(vm ref, path string) {
	var item struct {
		Value struct {
			Name string `json:"name"`
		} `json:"value"`
	}
	id := strings.TrimPrefix(path, deployPath)
	if err := s.vapiDo(http.MethodGet, "/rest/com/vmware/content/library/item/id:"+id, nil, &item.Value); err == nil {
		s.images.set(vm, item.Value.Name)
	}
	s.takeFirmware(vm, id)
}

// takeFirmware gives a deployed VM the firmware that its descriptor names, which the library leaves out.
func (s *Sim) takeFirmware(this ref, item string) {
	found, _ := filepath.Glob(filepath.Join(s.dir, "datastore-*", "contentlib-*", item, "*.ovf"))
	ctx := fresh(s.svc)
	vm, ok := s.vmOf(ctx, this.Value)
	if len(found) == 0 || !ok {
		return
	}
	file, err := os.Open(found[0])
	if err != nil {
		return
	}
	defer func() { _ = file.Close() }()
	envelope, err := ovf.Unmarshal(file)
	if err != nil || envelope.VirtualSystem == nil {
		return
	}
	for _, section := range envelope.VirtualSystem.VirtualHardware {
		for _, config := range section.Config {
			if config.Key == "firmware" {
				ctx.WithLock(vm, func() { ctx.Update(vm, []types.PropertyChange{{Name: "config.firmware", Val: config.Value}}) })
			}
		}
	}
}

// hardware is what a hypervisor needs to run a VM.
type hardware struct {
	NumCPUs  int32  `json:"numCPUs"`
	MemoryMB int32  `json:"memoryMB"`
	Firmware string `json:"firmware"`
	// The name of the library's item that the first disk is a copy of; empty where it is a copy of none.
	Image string      `json:"image"`
	Disks []guestDisk `json:"disks"`
	NICs  []guestNIC  `json:"nics"`
}

// guestNIC is a network adapter.
type guestNIC struct {
	MAC       string `json:"mac"`
	Network   string `json:"network"`
	Connected bool   `json:"connected"`
}

// controlHardware is what a powered-on VM is made of.
func (s *Sim) controlHardware(r *http.Request) (any, error) {
	ctx, vm, err := s.controlVM(r)
	if err != nil {
		return nil, err
	}
	out := hardware{Image: s.images.get(vm.Self), NICs: []guestNIC{}}
	ctx.WithLock(vm, func() {
		out.NumCPUs, out.MemoryMB = vm.Config.Hardware.NumCPU, vm.Config.Hardware.MemoryMB
		out.Firmware = vm.Config.Firmware
		out.Disks = guestDisks(vm)
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
			MAC: ethernet.MacAddress, Network: networkName(ctx, ethernet),
			Connected: ethernet.Connectable == nil || ethernet.Connectable.StartConnected,
		})
	}
	return nics
}

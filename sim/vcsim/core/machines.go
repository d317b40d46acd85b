package core

import (
	"cmp"
	"context"
	"maps"
	"reflect"
	"slices"
	"sync"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/vim"
)

// Machine is what a guest agent needs to know of a VM.
type Machine struct {
	MoID         string `json:"moid"`
	Name         string `json:"name"`
	UUID         string `json:"uuid"`
	InstanceUUID string `json:"instanceUuid"`
	PowerState   string `json:"powerState"`
	Template     bool   `json:"template"`
	Folder       string `json:"folder"`
	BootCount    int    `json:"bootCount"`
	// Grows with every request to a real guest to shut down.
	ShutdownCount int `json:"shutdownCount"`
	// The disks by their places: the guest sees those, and no file of the datastore.
	Disks []GuestDisk `json:"disks"`
	// The MAC addresses of the network adapters.
	MACs []string `json:"macs"`
}

// GuestDisk is a disk as the guest sees it.
type GuestDisk struct {
	Bus         string `json:"bus"` // scsi, sata, ide or nvme
	Controller  int32  `json:"controller"`
	Unit        int32  `json:"unit"`
	UUID        string `json:"uuid"`
	CapacityMiB int64  `json:"capacityMiB"`
	FirstClass  bool   `json:"firstClass"` // a volume of its own that only hangs on the VM
}

func (m Machine) equals(other Machine) bool {
	disks, others := m.Disks, other.Disks
	m.Disks, other.Disks = nil, nil
	return slices.Equal(disks, others) && reflect.DeepEqual(m, other)
}

// Row is what the simulator itself wants to know beyond that.
type Row struct {
	Machine
	Pool, Host vim.Ref
	Demand     Demand
}

// Machines is the table of all VMs, with a revision that grows whenever a machine changes. It is what is read about
// many VMs at once: the library would read them without their locks.
type Machines struct {
	svc *simulator.Service
	hub *Hub

	feed *Feed
	work sync.Mutex // held while rows are brought up to date

	mu       sync.Mutex
	rows     map[vim.Ref]Row
	profiles map[vim.Ref]Profiles
	revision int64
	changed  chan struct{} // closed and replaced at each change
}

func newMachines(svc *simulator.Service, h *Hub, done <-chan struct{}) *Machines {
	m := &Machines{
		svc: svc, hub: h, feed: h.Subscribe(), rows: map[vim.Ref]Row{}, profiles: map[vim.Ref]Profiles{},
		revision: 1, changed: make(chan struct{}),
	}
	go func() {
		for {
			select {
			case <-done:
				return
			case <-m.feed.Wake:
				m.Refresh()
			}
		}
	}()
	return m
}

// fresh is a Context of its own: the library identifies the owner of a lock by it.
func fresh(svc *simulator.Service) *simulator.Context {
	ctx := *svc.Context
	return &ctx
}

// Fresh is a Context of its own for work that locks objects.
func (vc *VCenter) Fresh() *simulator.Context { return fresh(vc.Service) }

// Refresh brings the table up to date. The caller must hold no VM's lock.
func (m *Machines) Refresh() {
	m.work.Lock()
	defer m.work.Unlock()
	moved := false
	for r, gone := range m.feed.Take() {
		if r.Type != "VirtualMachine" {
			continue
		}
		now, ok := Row{}, false
		if !gone {
			now, ok = m.read(r)
		}
		m.mu.Lock()
		old, had := m.rows[r]
		moved = moved || ok != had || !old.equals(now.Machine)
		if ok {
			m.rows[r] = now
		} else {
			delete(m.rows, r)
			delete(m.profiles, r)
		}
		m.mu.Unlock()
	}
	if moved {
		m.mu.Lock()
		m.revision++
		close(m.changed)
		m.changed = make(chan struct{})
		m.mu.Unlock()
	}
}

func (m *Machines) read(r vim.Ref) (Row, bool) {
	ctx := fresh(m.svc)
	vm, ok := ctx.Map.Get(r).(*simulator.VirtualMachine)
	if !ok {
		return Row{}, false
	}
	var now Row
	ctx.WithLock(vm, func() {
		boots, shutdowns := m.hub.counts(r)
		now.Machine = Machine{
			MoID:          r.Value,
			Name:          vm.Name,
			UUID:          vm.Config.Uuid,
			InstanceUUID:  vm.Config.InstanceUuid,
			PowerState:    string(vm.Runtime.PowerState),
			Template:      vm.Config.Template,
			Folder:        vm.Parent.Value,
			BootCount:     boots,
			ShutdownCount: shutdowns,
			Disks:         GuestDisks(vm),
		}
		for _, adapter := range vim.Adapters(vm.Config.Hardware.Device) {
			now.MACs = append(now.MACs, adapter.MacAddress)
		}
		now.Demand = DemandOf(vm)
		if vm.ResourcePool != nil {
			now.Pool = *vm.ResourcePool
		}
		if vm.Runtime.Host != nil {
			now.Host = *vm.Runtime.Host
		}
	})
	return now, true
}

// GuestDisks are the disks of a VM, in the order of their places.
func GuestDisks(vm *simulator.VirtualMachine) []GuestDisk {
	devices := object.VirtualDeviceList(vm.Config.Hardware.Device)
	var disks []GuestDisk
	for _, device := range devices {
		disk, ok := device.(*types.VirtualDisk)
		if !ok || disk.UnitNumber == nil {
			continue
		}
		now := GuestDisk{Unit: *disk.UnitNumber, CapacityMiB: disk.CapacityInBytes >> 20, Bus: "scsi", FirstClass: disk.VDiskId != nil}
		switch controller := devices.FindByKey(disk.ControllerKey).(type) {
		case types.BaseVirtualSCSIController:
			now.Controller = controller.GetVirtualSCSIController().BusNumber
		case types.BaseVirtualSATAController:
			now.Bus, now.Controller = "sata", controller.GetVirtualSATAController().BusNumber
		case *types.VirtualIDEController:
			now.Bus, now.Controller = "ide", controller.BusNumber
		case *types.VirtualNVMEController:
			now.Bus, now.Controller = "nvme", controller.BusNumber
		default:
			continue // nothing that a guest could reach it by
		}
		if backing, ok := disk.Backing.(*types.VirtualDiskFlatVer2BackingInfo); ok {
			now.UUID = backing.Uuid
		}
		disks = append(disks, now)
	}
	slices.SortFunc(disks, func(a, b GuestDisk) int {
		return cmp.Or(cmp.Compare(a.Bus, b.Bus), cmp.Compare(a.Controller, b.Controller), cmp.Compare(a.Unit, b.Unit))
	})
	return disks
}

// All gives the table as it is now. The caller must hold no VM's lock.
func (m *Machines) All() []Machine {
	m.Refresh()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, list := m.Since(ctx, 0)
	return list
}

// Since waits until the table is newer than the revision, or the context ends, and gives it.
func (m *Machines) Since(ctx context.Context, revision int64) (int64, []Machine) {
	for {
		m.mu.Lock()
		now, changed := m.revision, m.changed
		if now > revision || ctx.Err() != nil {
			list := make([]Machine, 0, len(m.rows))
			for _, r := range slices.SortedFunc(maps.Keys(m.rows), vim.CompareRefs) {
				list = append(list, m.rows[r].Machine)
			}
			m.mu.Unlock()
			return now, list
		}
		m.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// Row gives what is known of a VM.
func (m *Machines) Row(vm vim.Ref) (Row, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known, ok := m.rows[vm]
	return known, ok
}

// Each shows every row. The table is locked meanwhile.
func (m *Machines) Each(show func(vim.Ref, Row)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for r, row := range m.rows {
		show(r, row)
	}
}

// Find gives the VMs that are wanted, in order. The caller must hold no VM's lock.
func (m *Machines) Find(wanted func(Row) bool) (found []vim.Ref) {
	m.Refresh()
	m.Each(func(r vim.Ref, row Row) {
		if wanted(row) {
			found = append(found, r)
		}
	})
	slices.SortFunc(found, vim.CompareRefs)
	return found
}

// VMOf is the library's VM object.
func (vc *VCenter) VMOf(ctx *simulator.Context, moid string) (*simulator.VirtualMachine, bool) {
	vm, ok := ctx.Map.Get(vim.Ref{Type: "VirtualMachine", Value: moid}).(*simulator.VirtualMachine)
	return vm, ok
}

// Demand is what a VM reserves when it is powered on.
type Demand struct {
	Memory int64 // MiB
	CPU    int64 // MHz
}

// DemandOf is what a VM, whose lock is held, reserves.
func DemandOf(vm *simulator.VirtualMachine) Demand {
	var d Demand
	d.CPU, _ = vim.Allocation(vm.Config.CpuAllocation)
	d.Memory, _ = vim.Allocation(vm.Config.MemoryAllocation)
	if locked := vm.Config.MemoryReservationLockedToMax; locked != nil && *locked {
		d.Memory = int64(vm.Config.Hardware.MemoryMB)
	}
	return d
}

// Plus adds two demands.
func (d Demand) Plus(e Demand) Demand { return Demand{d.Memory + e.Memory, d.CPU + e.CPU} }

// Minus subtracts a demand.
func (d Demand) Minus(e Demand) Demand { return Demand{d.Memory - e.Memory, d.CPU - e.CPU} }

// Covers tells whether a demand can be met out of this one.
func (d Demand) Covers(e Demand) bool { return d.Memory >= e.Memory && d.CPU >= e.CPU }

// Profiles are the storage profiles of a VM: its home and each of its disks have their own. The library has no place for them.
type Profiles struct {
	Home  []string
	Disks map[int32][]string // by the disk's key
}

// SetProfiles notes the profiles that a change of settings brings: those that it leaves out stay.
func (m *Machines) SetProfiles(vm vim.Ref, home []string, disks map[int32][]string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := Profiles{Home: m.profiles[vm].Home, Disks: map[int32][]string{}}
	for key, ids := range m.profiles[vm].Disks {
		now.Disks[key] = ids
	}
	if len(home) != 0 {
		now.Home = home
	}
	for key, ids := range disks {
		now.Disks[key] = ids
	}
	m.profiles[vm] = now
}

// ProfilesOf are a VM's storage profiles.
func (m *Machines) ProfilesOf(vm vim.Ref) Profiles {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.profiles[vm]
}

package main

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
)

// machine is what a guest agent needs to know of a VM.
type machine struct {
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
	Disks []guestDisk `json:"disks"`
}

// guestDisk is a disk as the guest sees it.
type guestDisk struct {
	Bus         string `json:"bus"` // scsi, sata, ide or nvme
	Controller  int32  `json:"controller"`
	Unit        int32  `json:"unit"`
	UUID        string `json:"uuid"`
	CapacityMiB int64  `json:"capacityMiB"`
	FirstClass  bool   `json:"firstClass"` // a volume of its own that only hangs on the VM
}

func (m machine) equals(other machine) bool {
	disks, others := m.Disks, other.Disks
	m.Disks, other.Disks = nil, nil
	return slices.Equal(disks, others) && reflect.DeepEqual(m, other)
}

// row is what the simulator itself wants to know beyond that.
type row struct {
	machine
	pool, host ref
	demand     demand
	disks      []string // files of its own
	bases      []string // files that its disks rest on
}

// machines is the table of all VMs, with a revision that grows whenever a machine changes. It is what is read about
// many VMs at once: the library would read them without their locks.
type machines struct {
	svc *simulator.Service
	hub *hub

	feed *feed
	work sync.Mutex // held while rows are brought up to date

	mu       sync.Mutex
	rows     map[ref]row
	profiles map[ref]profiles
	revision int64
	changed  chan struct{} // closed and replaced at each change
}

func newMachines(svc *simulator.Service, h *hub, done <-chan struct{}) *machines {
	m := &machines{
		svc: svc, hub: h, feed: h.subscribe(), rows: map[ref]row{}, profiles: map[ref]profiles{},
		revision: 1, changed: make(chan struct{}),
	}
	go func() {
		for {
			select {
			case <-done:
				return
			case <-m.feed.wake:
				m.refresh()
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

func (s *Sim) fresh() *simulator.Context { return fresh(s.svc) }

// refresh brings the table up to date. The caller must hold no VM's lock.
func (m *machines) refresh() {
	m.work.Lock()
	defer m.work.Unlock()
	moved := false
	for r, gone := range m.feed.take() {
		if r.Type != "VirtualMachine" {
			continue
		}
		now, ok := row{}, false
		if !gone {
			now, ok = m.read(r)
		}
		m.mu.Lock()
		old, had := m.rows[r]
		moved = moved || ok != had || !old.equals(now.machine)
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

func (m *machines) read(r ref) (row, bool) {
	ctx := fresh(m.svc)
	vm, ok := ctx.Map.Get(r).(*simulator.VirtualMachine)
	if !ok {
		return row{}, false
	}
	var now row
	ctx.WithLock(vm, func() {
		now.machine = machine{
			MoID:          r.Value,
			Name:          vm.Name,
			UUID:          vm.Config.Uuid,
			InstanceUUID:  vm.Config.InstanceUuid,
			PowerState:    string(vm.Runtime.PowerState),
			Template:      vm.Config.Template,
			Folder:        vm.Parent.Value,
			BootCount:     m.hub.bootCount(r),
			ShutdownCount: m.hub.shutdownCount(r),
			Disks:         guestDisks(vm),
		}
		now.demand = demandOf(vm)
		if vm.ResourcePool != nil {
			now.pool = *vm.ResourcePool
		}
		if vm.Runtime.Host != nil {
			now.host = *vm.Runtime.Host
		}
		now.disks, now.bases = filesOf(vm)
	})
	return now, true
}

// guestDisks are the disks of a VM, in the order of their places.
func guestDisks(vm *simulator.VirtualMachine) []guestDisk {
	devices := object.VirtualDeviceList(vm.Config.Hardware.Device)
	var disks []guestDisk
	for _, device := range devices {
		disk, ok := device.(*types.VirtualDisk)
		if !ok || disk.UnitNumber == nil {
			continue
		}
		now := guestDisk{Unit: *disk.UnitNumber, CapacityMiB: disk.CapacityInBytes >> 20, Bus: "scsi", FirstClass: disk.VDiskId != nil}
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
	slices.SortFunc(disks, func(a, b guestDisk) int {
		return cmp.Or(cmp.Compare(a.Bus, b.Bus), cmp.Compare(a.Controller, b.Controller), cmp.Compare(a.Unit, b.Unit))
	})
	return disks
}

// all gives the table as it is now. The caller must hold no VM's lock.
func (m *machines) all() []machine {
	m.refresh()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, list := m.since(ctx, 0)
	return list
}

// since waits until the table is newer than the revision, or the context ends, and gives it.
func (m *machines) since(ctx context.Context, revision int64) (int64, []machine) {
	for {
		m.mu.Lock()
		now, changed := m.revision, m.changed
		if now > revision || ctx.Err() != nil {
			list := make([]machine, 0, len(m.rows))
			for _, r := range slices.SortedFunc(maps.Keys(m.rows), compareRefs) {
				list = append(list, m.rows[r].machine)
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

// row gives what is known of a VM.
func (m *machines) row(vm ref) (row, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known, ok := m.rows[vm]
	return known, ok
}

// each shows every row. The table is locked meanwhile.
func (m *machines) each(show func(ref, row)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for r, row := range m.rows {
		show(r, row)
	}
}

// find gives the VMs that are wanted, in order. The caller must hold no VM's lock.
func (m *machines) find(wanted func(row) bool) (found []ref) {
	m.refresh()
	m.each(func(r ref, row row) {
		if wanted(row) {
			found = append(found, r)
		}
	})
	slices.SortFunc(found, compareRefs)
	return found
}

// vmOf is the library's VM object.
func (s *Sim) vmOf(ctx *simulator.Context, moid string) (*simulator.VirtualMachine, bool) {
	vm, ok := ctx.Map.Get(ref{Type: "VirtualMachine", Value: moid}).(*simulator.VirtualMachine)
	return vm, ok
}

// demand is what a VM reserves when it is powered on.
type demand struct {
	memory int64 // MiB
	cpu    int64 // MHz
}

func demandOf(vm *simulator.VirtualMachine) demand {
	var d demand
	d.cpu, _ = allocation(vm.Config.CpuAllocation)
	d.memory, _ = allocation(vm.Config.MemoryAllocation)
	if locked := vm.Config.MemoryReservationLockedToMax; locked != nil && *locked {
		d.memory = int64(vm.Config.Hardware.MemoryMB)
	}
	return d
}

func (d demand) plus(e demand) demand { return demand{d.memory + e.memory, d.cpu + e.cpu} }

func (d demand) minus(e demand) demand { return demand{d.memory - e.memory, d.cpu - e.cpu} }

// profiles are the storage profiles of a VM: its home and each of its disks have their own. The library has no place for them.
type profiles struct {
	home  []string
	disks map[int32][]string // by the disk's key
}

// setProfiles notes the profiles that a change of settings brings: those that it leaves out stay.
func (m *machines) setProfiles(vm ref, home []string, disks map[int32][]string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := profiles{home: m.profiles[vm].home, disks: map[int32][]string{}}
	for key, ids := range m.profiles[vm].disks {
		now.disks[key] = ids
	}
	if len(home) != 0 {
		now.home = home
	}
	for key, ids := range disks {
		now.disks[key] = ids
	}
	m.profiles[vm] = now
}

func (m *machines) profilesOf(vm ref) profiles {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.profiles[vm]
}

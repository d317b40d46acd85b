package main

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
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
}

// machines is the table of all VMs, with a revision that grows whenever a row changes.
type machines struct {
	svc *simulator.Service
	hub *hub

	feed     *feed
	work     sync.Mutex // held while rows are brought up to date
	mu       sync.Mutex
	rows     map[ref]machine
	revision int64
	changed  chan struct{} // closed and replaced at each change
}

func newMachines(svc *simulator.Service, h *hub, done <-chan struct{}) *machines {
	m := &machines{svc: svc, hub: h, feed: h.subscribe(), rows: map[ref]machine{}, revision: 1, changed: make(chan struct{})}
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

// refresh brings the table up to date. The caller must hold no VM's lock.
func (m *machines) refresh() {
	m.work.Lock()
	defer m.work.Unlock()
	moved := false
	for r, gone := range m.feed.take() {
		if r.Type != "VirtualMachine" {
			continue
		}
		row, ok := machine{}, false
		if !gone {
			row, ok = m.read(r)
		}
		m.mu.Lock()
		old, had := m.rows[r]
		switch {
		case ok && (!had || old != row):
			m.rows[r] = row
			moved = true
		case !ok && had:
			delete(m.rows, r)
			moved = true
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

func (m *machines) read(r ref) (machine, bool) {
	ctx := fresh(m.svc)
	vm, ok := ctx.Map.Get(r).(*simulator.VirtualMachine)
	if !ok {
		return machine{}, false
	}
	var row machine
	ctx.WithLock(vm, func() {
		if vm.Config == nil || vm.Parent == nil {
			ok = false
			return
		}
		row = machine{
			MoID:         r.Value,
			Name:         vm.Name,
			UUID:         vm.Config.Uuid,
			InstanceUUID: vm.Config.InstanceUuid,
			PowerState:   string(vm.Runtime.PowerState),
			Template:     vm.Config.Template,
			Folder:       vm.Parent.Value,
			BootCount:    m.hub.bootCount(r),
		}
	})
	return row, ok
}

// since waits until the table is newer than the revision, or the context ends, and gives it.
func (m *machines) since(ctx context.Context, revision int64) (int64, []machine) {
	for {
		m.mu.Lock()
		now, changed := m.revision, m.changed
		if now > revision || ctx.Err() != nil {
			rows := make([]machine, 0, len(m.rows))
			for _, row := range m.rows {
				rows = append(rows, row)
			}
			m.mu.Unlock()
			slices.SortFunc(rows, func(a, b machine) int { return cmp.Compare(a.MoID, b.MoID) })
			return now, rows
		}
		m.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// find gives the VMs that are wanted, in order.
func (m *machines) find(wanted func(machine) bool) (found []ref) {
	m.refresh()
	m.mu.Lock()
	defer m.mu.Unlock()
	for r, row := range m.rows {
		if wanted(row) {
			found = append(found, r)
		}
	}
	slices.SortFunc(found, compareRefs)
	return found
}

// findByUUID stands in for the library's search, which reads every VM without its lock.
func (s *Sim) findByUUID(ctx *simulator.Context, body types.AnyType) soap.HasFault {
	req := body.(*types.FindByUuid)
	if !req.VmSearch {
		return s.invoke(ctx, req.This, "FindByUuid", body)
	}
	found := s.machines.find(func(row machine) bool {
		if req.InstanceUuid != nil && *req.InstanceUuid {
			return strings.EqualFold(row.InstanceUUID, req.Uuid)
		}
		return strings.EqualFold(row.UUID, req.Uuid)
	})
	res := &types.FindByUuidResponse{}
	if len(found) != 0 {
		res.Returnval = &found[0]
	}
	return &methods.FindByUuidBody{Res: res}
}

// vmOf is the library's VM object.
func (s *Sim) vmOf(ctx *simulator.Context, moid string) (*simulator.VirtualMachine, bool) {
	vm, ok := ctx.Map.Get(types.ManagedObjectReference{Type: "VirtualMachine", Value: moid}).(*simulator.VirtualMachine)
	return vm, ok
}

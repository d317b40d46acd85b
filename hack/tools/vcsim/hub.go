package main

import (
	"maps"
	"sync"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

type ref = types.ManagedObjectReference

// hub hears of every change in the inventory and notes for each of its feeds which objects to look at again.
//
// The library calls it while it holds object locks, so it only ever takes notes: whoever reads a feed locks one
// object at a time, and no lock is ever waited for under another.
type hub struct {
	mu    sync.Mutex
	feeds map[*feed]struct{}
	boots map[ref]int
}

// feed is one reader's list of changed objects, each named once however often it changed.
type feed struct {
	mu    sync.Mutex
	dirty map[ref]bool // true: gone
	wake  chan struct{}
}

func newHub(registry *simulator.Registry) *hub {
	h := &hub{feeds: map[*feed]struct{}{}, boots: map[ref]int{}}
	registry.AddHandler(h)
	return h
}

func (h *hub) subscribe() *feed {
	f := &feed{dirty: map[ref]bool{}, wake: make(chan struct{}, 1)}
	h.mu.Lock()
	h.feeds[f] = struct{}{}
	h.mu.Unlock()
	return f
}

func (h *hub) unsubscribe(f *feed) {
	h.mu.Lock()
	delete(h.feeds, f)
	h.mu.Unlock()
}

// Reference is part of simulator.RegisterObject.
func (h *hub) Reference() ref { return ref{Type: "LayercakeHub", Value: "hub"} }

// PutObject is part of simulator.RegisterObject.
func (h *hub) PutObject(_ *simulator.Context, o mo.Reference) { h.note(o.Reference(), false) }

// RemoveObject is part of simulator.RegisterObject.
func (h *hub) RemoveObject(_ *simulator.Context, r ref) { h.note(r, true) }

// UpdateObject is part of simulator.RegisterObject.
func (h *hub) UpdateObject(_ *simulator.Context, o mo.Reference, changes []types.PropertyChange) {
	r := o.Reference()
	for _, c := range changes {
		if c.Name == "runtime.powerState" && c.Val == types.VirtualMachinePowerStatePoweredOn {
			h.booted(r)
		}
	}
	h.note(r, false)
}

// booted counts a start of the guest that is not a change of the power state as well: a reset, a reboot.
func (h *hub) booted(r ref) {
	h.mu.Lock()
	h.boots[r]++
	h.mu.Unlock()
}

func (h *hub) bootCount(r ref) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.boots[r]
}

func (h *hub) note(r ref, gone bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if gone {
		delete(h.boots, r)
	}
	for f := range h.feeds {
		f.mu.Lock()
		f.dirty[r] = gone
		f.mu.Unlock()
		f.poke()
	}
}

func (f *feed) poke() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// take empties the feed.
func (f *feed) take() map[ref]bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	taken := maps.Clone(f.dirty)
	clear(f.dirty)
	return taken
}

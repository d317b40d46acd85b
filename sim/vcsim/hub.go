package main

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

// hub hears of every change in the inventory and notes for each of its feeds which objects to look at again.
//
// The library calls it while it holds object locks, so it only ever takes notes: whoever reads a feed locks one
// object at a time, and no lock is ever waited for under another.
type hub struct {
	mu    sync.Mutex
	feeds map[*feed]struct{}
	boots map[ref]int
	// Requests to shut down that real guests carry out by themselves.
	shutdowns map[ref]int
	born      map[ref]bool            // VMs; false: not finished, and to be seen by nobody
	hidden    map[string]*ref         // VMs by folder and name that stay unseen until they are shown
	tasks     map[ref][]chan struct{} // to be closed at the end of the task
	ended     []endedTask             // oldest first
	onBoot    func(ref)               // hears of every start of a guest; must not block
}

// feed is one reader's list of changed objects, each named once however often it changed. The hub's lock guards it: a
// change is in all feeds or in none.
type feed struct {
	hub   *hub
	dirty map[ref]bool // true: gone
	wake  chan struct{}
}

func newHub(registry *simulator.Registry) *hub {
	h := &hub{feeds: map[*feed]struct{}{}, boots: map[ref]int{}, shutdowns: map[ref]int{}, born: map[ref]bool{},
		hidden: map[string]*ref{}, tasks: map[ref][]chan struct{}{}}
	registry.AddHandler(h)
	return h
}

func (h *hub) subscribe() *feed {
	f := &feed{hub: h, dirty: map[ref]bool{}, wake: make(chan struct{}, 1)}
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

// PutObject is part of simulator.RegisterObject. The library shows a VM before it has finished it and goes on writing
// to it without a lock; nobody hears of it until then.
func (h *hub) PutObject(_ *simulator.Context, o mo.Reference) {
	r := o.Reference()
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, known := h.born[r]; r.Type == "VirtualMachine" && !known {
		makeWhole(o)
		h.born[r] = false
		return
	}
	if r.Type == "ResourcePool" {
		makeWhole(o)
	}
	h.note(r, false)
	if e, ok := o.(mo.Entity); ok && e.Entity().Parent != nil {
		h.note(*e.Entity().Parent, false)
	}
}

// RemoveObject is part of simulator.RegisterObject.
func (h *hub) RemoveObject(_ *simulator.Context, r ref) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.boots, r)
	delete(h.shutdowns, r)
	if born, isVM := h.born[r]; isVM {
		delete(h.born, r)
		if !born {
			return
		}
	}
	h.note(r, true)
}

// UpdateObject is part of simulator.RegisterObject.
func (h *hub) UpdateObject(_ *simulator.Context, o mo.Reference, changes []types.PropertyChange) {
	r := o.Reference()
	h.mu.Lock()
	defer h.mu.Unlock()
	if born, put := h.born[r]; r.Type == "VirtualMachine" && !born {
		// The last thing that the library does in making a VM is to give it its name.
		if !put || len(changes) != 1 || changes[0].Name != "name" {
			return
		}
		if vm, ok := o.(*mo.VirtualMachine); ok {
			if unseen, hide := h.hidden[hiddenKey(*vm.Parent, vm.Name)]; hide {
				*unseen = r
				return
			}
		}
		h.born[r] = true
	}
	h.noteTask(r, changes)
	for _, c := range changes {
		if c.Name == "runtime.powerState" && c.Val == types.VirtualMachinePowerStatePoweredOn {
			h.boot(r)
		}
	}
	h.note(r, false)
}

func (h *hub) boot(r ref) {
	h.boots[r]++
	if h.onBoot != nil {
		h.onBoot(r)
	}
}

func hiddenKey(folder ref, name string) string { return folder.Value + "/" + name }

// hide keeps the VM that is going to be made unseen until show is called.
func (h *hub) hide(folder ref, name string) (show func()) {
	key, unseen := hiddenKey(folder, name), new(ref)
	h.mu.Lock()
	h.hidden[key] = unseen
	h.mu.Unlock()
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.hidden, key)
		if _, exists := h.born[*unseen]; exists {
			h.born[*unseen] = true
			h.note(*unseen, false)
		}
	}
}

// finished gives a channel that is closed when the task ends; forget must be called.
func (h *hub) finished(task ref) (done chan struct{}, forget func()) {
	done = make(chan struct{})
	h.mu.Lock()
	h.tasks[task] = append(h.tasks[task], done)
	h.mu.Unlock()
	return done, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		left := slices.DeleteFunc(h.tasks[task], func(c chan struct{}) bool { return c == done })
		if len(left) == 0 {
			delete(h.tasks, task)
		} else {
			h.tasks[task] = left
		}
	}
}

type endedTask struct {
	self ref
	at   time.Time
}

// outdated takes the tasks that ended before the time off the list.
func (h *hub) outdated(before time.Time) (tasks []ref) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for n < len(h.ended) && h.ended[n].at.Before(before) {
		tasks = append(tasks, h.ended[n].self)
		n++
	}
	h.ended = slices.Delete(h.ended, 0, n)
	return tasks
}

func (h *hub) noteTask(r ref, changes []types.PropertyChange) {
	if r.Type != "Task" {
		return
	}
	waiting := h.tasks[r]
	for _, c := range changes {
		if c.Name == "info.state" && (c.Val == types.TaskInfoStateSuccess || c.Val == types.TaskInfoStateError) {
			for _, done := range waiting {
				close(done)
			}
			delete(h.tasks, r)
			h.ended = append(h.ended, endedTask{r, time.Now()})
			return
		}
	}
}

// touch has the object looked at again, for changes that the library makes in silence.
func (h *hub) touch(r ref) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r.Type != "VirtualMachine" || h.born[r] {
		h.note(r, false)
	}
}

// isBorn tells whether a VM is finished, and known to others.
func (h *hub) isBorn(r ref) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.born[r]
}

// booted counts a start of the guest that is not a change of the power state as well: a reset, a reboot.
func (h *hub) booted(r ref) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.boot(r)
	h.note(r, false)
}

// askedToShutDown counts a request to a real guest.
func (h *hub) askedToShutDown(r ref) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.shutdowns[r]++
	h.note(r, false)
}

func (h *hub) shutdownCount(r ref) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.shutdowns[r]
}

func (h *hub) bootCount(r ref) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.boots[r]
}

func (h *hub) note(r ref, gone bool) {
	for f := range h.feeds {
		f.dirty[r] = gone
		f.poke()
	}
}

func (f *feed) poke() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// add has the reader look at an object that did not change.
func (f *feed) add(r ref) {
	f.hub.mu.Lock()
	f.dirty[r] = false
	f.hub.mu.Unlock()
}

// take empties the feed.
func (f *feed) take() map[ref]bool {
	f.hub.mu.Lock()
	defer f.hub.mu.Unlock()
	taken := maps.Clone(f.dirty)
	clear(f.dirty)
	return taken
}

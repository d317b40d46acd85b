package core

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/vim"
)

// Hub hears of every change in the inventory and notes for each of its feeds which objects to look at again.
//
// The library calls it while it holds object locks, so it only ever takes notes: whoever reads a feed locks one
// object at a time, and no lock is ever waited for under another.
type Hub struct {
	mu    sync.Mutex
	feeds map[*Feed]struct{}
	boots map[vim.Ref]int
	// Requests to shut down that real guests carry out by themselves.
	shutdowns map[vim.Ref]int
	born      map[vim.Ref]bool            // VMs; false: not finished, and to be seen by nobody
	hidden    map[string]*vim.Ref         // VMs by folder and name that stay unseen until they are shown
	tasks     map[vim.Ref][]chan struct{} // to be closed at the end of the task
	ended     []endedTask                 // oldest first
	OnBoot    func(vim.Ref)               // hears of every start of a guest; must not block
}

// Feed is one reader's list of changed objects, each named once however often it changed. The hub's lock guards it: a
// change is in all feeds or in none.
type Feed struct {
	hub   *Hub
	dirty map[vim.Ref]bool // true: gone
	Wake  chan struct{}
}

func newHub(registry *simulator.Registry) *Hub {
	h := &Hub{feeds: map[*Feed]struct{}{}, boots: map[vim.Ref]int{}, shutdowns: map[vim.Ref]int{}, born: map[vim.Ref]bool{},
		hidden: map[string]*vim.Ref{}, tasks: map[vim.Ref][]chan struct{}{}}
	registry.AddHandler(h)
	return h
}

// Subscribe gives a feed of what changes from now on.
func (h *Hub) Subscribe() *Feed {
	f := &Feed{hub: h, dirty: map[vim.Ref]bool{}, Wake: make(chan struct{}, 1)}
	h.mu.Lock()
	h.feeds[f] = struct{}{}
	h.mu.Unlock()
	return f
}

// Unsubscribe ends a feed.
func (h *Hub) Unsubscribe(f *Feed) {
	h.mu.Lock()
	delete(h.feeds, f)
	h.mu.Unlock()
}

// Reference is part of simulator.RegisterObject.
func (h *Hub) Reference() vim.Ref { return vim.Ref{Type: "LayercakeHub", Value: "hub"} }

// PutObject is part of simulator.RegisterObject. The library shows a VM before it has finished it and goes on writing
// to it without a lock; nobody hears of it until then.
func (h *Hub) PutObject(_ *simulator.Context, o mo.Reference) {
	r := o.Reference()
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, known := h.born[r]; r.Type == "VirtualMachine" && !known {
		MakeWhole(o)
		h.born[r] = false
		return
	}
	if r.Type == "ResourcePool" {
		MakeWhole(o)
	}
	h.note(r, false)
	if e, ok := o.(mo.Entity); ok && e.Entity().Parent != nil {
		h.note(*e.Entity().Parent, false)
	}
}

// RemoveObject is part of simulator.RegisterObject.
func (h *Hub) RemoveObject(_ *simulator.Context, r vim.Ref) {
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
func (h *Hub) UpdateObject(_ *simulator.Context, o mo.Reference, changes []types.PropertyChange) {
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

func (h *Hub) boot(r vim.Ref) {
	h.boots[r]++
	if h.OnBoot != nil {
		h.OnBoot(r)
	}
}

func hiddenKey(folder vim.Ref, name string) string { return folder.Value + "/" + name }

// Hide keeps the VM that is going to be made unseen until show is called.
func (h *Hub) Hide(folder vim.Ref, name string) (show func()) {
	key, unseen := hiddenKey(folder, name), new(vim.Ref)
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
func (h *Hub) finished(task vim.Ref) (done chan struct{}, forget func()) {
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
	self vim.Ref
	at   time.Time
}

// outdated takes the tasks that ended before the time off the list.
func (h *Hub) outdated(before time.Time) (tasks []vim.Ref) {
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

func (h *Hub) noteTask(r vim.Ref, changes []types.PropertyChange) {
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

// Touch has the object looked at again, for changes that the library makes in silence.
func (h *Hub) Touch(r vim.Ref) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r.Type != "VirtualMachine" || h.born[r] {
		h.note(r, false)
	}
}

// IsBorn tells whether a VM is finished, and known to others.
func (h *Hub) IsBorn(r vim.Ref) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.born[r]
}

// Booted counts a start of the guest that is not a change of the power state as well: a reset, a reboot.
func (h *Hub) Booted(r vim.Ref) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.boot(r)
	h.note(r, false)
}

// AskedToShutDown counts a request to a real guest.
func (h *Hub) AskedToShutDown(r vim.Ref) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.shutdowns[r]++
	h.note(r, false)
}

// counts are how often a guest was started, and asked to shut down.
func (h *Hub) counts(r vim.Ref) (boots, shutdowns int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.boots[r], h.shutdowns[r]
}

func (h *Hub) note(r vim.Ref, gone bool) {
	for f := range h.feeds {
		f.dirty[r] = gone
		f.Poke()
	}
}

// Poke wakes the reader.
func (f *Feed) Poke() {
	select {
	case f.Wake <- struct{}{}:
	default:
	}
}

// Add has the reader look at an object that did not change.
func (f *Feed) Add(r vim.Ref) {
	f.hub.mu.Lock()
	f.dirty[r] = false
	f.hub.mu.Unlock()
}

// Take empties the feed.
func (f *Feed) Take() map[vim.Ref]bool {
	f.hub.mu.Lock()
	defer f.hub.mu.Unlock()
	taken := maps.Clone(f.dirty)
	clear(f.dirty)
	return taken
}

// Package backup takes backups of vCenter's database and restores them.
package backup

import (
	"slices"
	"sync"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/core"
	"layercake.invalid/sim/vcsim/inventory"
	"layercake.invalid/sim/vcsim/outage"
	"layercake.invalid/sim/vcsim/vim"
	"layercake.invalid/sim/vcsim/wire"
)

// A backup of vCenter is one of its database: which folders, pools and VMs there are, under which ids, and in what they lie.
// Hosts and datastores are not in it. After it is restored they go on with what they have:
//
//   - VMs that were made since are not in the inventory. They run, and their files are there. When the hosts are connected
//     again, vCenter finds them and enters them, in a folder of its own and under new ids. Ids are drawn from where the
//     backup left off, so that one VM may get what was another's.
//   - VMs that were destroyed since are back, without a host or files: orphaned.
//   - Folders, pools and modules are those of the backup.
//   - Sessions are gone, and what tasks and events were noted since.

// Backups are the one backup, and the VMs that only hosts know.
type Backups struct {
	*core.VCenter
	wire      *wire.Server
	inventory *inventory.Inventory
	outages   *outage.Outages

	mu     sync.Mutex
	last   *backup
	unseen []*simulator.VirtualMachine
}

// New gives a vCenter's backups, of which there is none yet.
func New(vc *core.VCenter, w *wire.Server, inv *inventory.Inventory, o *outage.Outages) *Backups {
	return &Backups{VCenter: vc, wire: w, inventory: inv, outages: o}
}

type backup struct {
	taken   time.Time
	places  map[vim.Ref]place
	modules inventory.SavedModules
}

// place is where a folder, a pool or a VM lies.
type place struct {
	entity   mo.Entity
	name     string
	parent   *vim.Ref
	pool     *vim.Ref  // of a VM
	children []vim.Ref // of a folder, or the pools of a pool
}

// DiscoveredFolder is the folder in which vCenter puts VMs that it finds on hosts.
const DiscoveredFolder = "Discovered virtual machine"

// Take notes what vCenter's database knows; an earlier backup is replaced.
func (s *Backups) Take() {
	taken := s.noteBackup()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = taken
}

func (s *Backups) noteBackup() *backup {
	ctx := s.Fresh()
	b := &backup{taken: time.Now(), places: map[vim.Ref]place{}, modules: s.inventory.Modules.Saved()}
	for _, e := range s.registered(ctx) {
		ctx.WithLock(e, func() {
			p := place{entity: e, name: e.Entity().Name, parent: e.Entity().Parent}
			switch o := e.(type) {
			case *simulator.Folder:
				p.children = slices.Clone(o.ChildEntity)
			case *simulator.ResourcePool:
				p.children = slices.Clone(o.ResourcePool.ResourcePool)
			case *simulator.VirtualMachine:
				p.pool = o.ResourcePool
			}
			b.places[e.Reference()] = p
		})
	}
	return b
}

// registered are the folders of VMs, the pools, and the VMs that are finished.
func (s *Backups) registered(ctx *simulator.Context) (found []mo.Entity) {
	for _, e := range ctx.Map.All("") {
		switch o := e.(type) {
		case *simulator.Folder:
			if slices.Contains(o.ChildType, "VirtualMachine") {
				found = append(found, e)
			}
		case *simulator.ResourcePool:
			found = append(found, e)
		case *simulator.VirtualMachine:
			if s.Hub.IsBorn(o.Self) {
				found = append(found, e)
			}
		}
	}
	return found
}

// restoreTimeout is how long a restore waits for tasks that still run.
const restoreTimeout = 10 * time.Second

// Restore puts vCenter back to the backup. Clients cannot connect meanwhile, and all sessions end. It reports whether a
// backup exists.
func (s *Backups) Restore() (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		return false, nil
	}
	return true, s.wire.WhileCut(func() {
		s.wire.EndSessions()
		// What hosts are about they end.
		for until := time.Now().Add(restoreTimeout); len(s.RunningTasks(s.Fresh())) != 0 && time.Now().Before(until); {
			time.Sleep(time.Millisecond)
		}
		s.bringBack(s.last)
	})
}

// bringBack brings the inventory to what the backup says.
func (s *Backups) bringBack(b *backup) {
	ctx := s.Fresh()
	for _, e := range s.registered(ctx) {
		vm, ok := e.(*simulator.VirtualMachine)
		if _, known := b.places[e.Reference()]; ok && !known {
			s.unregister(ctx, vm)
			s.unseen = append(s.unseen, vm)
		}
	}
	for _, e := range s.registered(ctx) {
		if _, known := b.places[e.Reference()]; !known {
			ctx.Map.Remove(ctx, e.Reference())
		}
	}
	for self, p := range b.places {
		if ctx.Map.Get(self) != nil {
			continue
		}
		if vm, ok := p.entity.(*simulator.VirtualMachine); ok {
			s.outages.Lose(self)
			s.register(ctx, vm)
		} else {
			ctx.Map.Put(p.entity)
		}
	}
	for _, p := range b.places {
		s.putBack(ctx, p)
	}
	s.inventory.Modules.Restore(b.modules)
	s.forgetTasks(ctx)
	s.Clock.Forget(b.taken)
	for self := range b.places {
		s.Hub.Touch(self)
	}
	s.outages.Settle()
}

// putBack gives a folder, a pool or a VM its place. What a VM is called its host knows.
func (s *Backups) putBack(ctx *simulator.Context, p place) {
	// A VM that was being made when the backup was taken is not in it.
	children := slices.DeleteFunc(slices.Clone(p.children), func(child vim.Ref) bool { return ctx.Map.Get(child) == nil })
	ctx.WithLock(p.entity, func() {
		p.entity.Entity().Parent = p.parent
		switch o := p.entity.(type) {
		case *simulator.Folder:
			o.Name, o.ChildEntity = p.name, children
		case *simulator.ResourcePool:
			o.Name, o.ResourcePool.ResourcePool = p.name, children
		}
	})
	vm, ok := p.entity.(*simulator.VirtualMachine)
	if !ok || p.pool == nil {
		return
	}
	var from *vim.Ref
	ctx.WithLock(vm, func() { from, vm.ResourcePool = vm.ResourcePool, p.pool })
	if from == nil || *from == *p.pool {
		return
	}
	if pool, ok := ctx.Map.Get(*from).(*simulator.ResourcePool); ok {
		ctx.Map.RemoveReference(ctx, pool, &pool.Vm, vm.Self)
	}
	if pool, ok := ctx.Map.Get(*p.pool).(*simulator.ResourcePool); ok {
		ctx.Map.AddReference(ctx, pool, &pool.Vm, vm.Self)
	}
}

// unregister takes a VM out of the inventory, on or off, and leaves it as it is.
func (s *Backups) unregister(ctx *simulator.Context, vm *simulator.VirtualMachine) {
	ctx.WithLock(vm, func() {
		// The library refuses what a client may not do: this is none.
		state := vm.Runtime.PowerState
		vm.Runtime.PowerState = types.VirtualMachinePowerStatePoweredOff
		vm.UnregisterVM(ctx, &types.UnregisterVM{This: vm.Self})
		vm.Runtime.PowerState = state
	})
}

// register enters a VM under its id into its folder, its pool, and the lists of its host and its datastores.
func (s *Backups) register(ctx *simulator.Context, vm *simulator.VirtualMachine) {
	ctx.Map.Put(vm)
	if folder, ok := ctx.Map.Get(*vm.Parent).(*simulator.Folder); ok {
		ctx.Map.AddReference(ctx, folder, &folder.ChildEntity, vm.Self)
	}
	if host, ok := ctx.Map.Get(*vm.Runtime.Host).(*simulator.HostSystem); ok {
		ctx.Map.AddReference(ctx, host, &host.Vm, vm.Self)
	}
	if vm.ResourcePool != nil {
		if pool, ok := ctx.Map.Get(*vm.ResourcePool).(*simulator.ResourcePool); ok {
			ctx.Map.AddReference(ctx, pool, &pool.Vm, vm.Self)
		}
	}
	for _, store := range vm.Datastore {
		if datastore, ok := ctx.Map.Get(store).(*simulator.Datastore); ok {
			ctx.Map.AddReference(ctx, datastore, &datastore.Vm, vm.Self)
		}
	}
	ctx.WithLock(vm, func() { ctx.Update(vm, []types.PropertyChange{vim.Change("name", vm.Name)}) })
}

// Discover enters the VMs that hosts have and vCenter does not know: each under the id that was another's.
func (s *Backups) Discover() error {
	ctx := s.Fresh()
	s.mu.Lock()
	defer s.mu.Unlock()
	unseen := s.unseen
	if len(unseen) == 0 {
		return nil
	}
	s.unseen = nil
	folder, err := s.discoveredFolder(ctx)
	if err != nil {
		return err
	}
	pool := s.rootPool(ctx)
	ids := make([]vim.Ref, len(unseen))
	for i := range unseen {
		ids[i] = unseen[(i+1)%len(unseen)].Self
	}
	for i, vm := range unseen {
		vm.Self = ids[i]
		vm.Summary.Vm = &vm.Self
		vm.Parent = &folder
		if vm.ResourcePool != nil {
			vm.ResourcePool = pool
		}
		s.register(ctx, vm)
	}
	s.outages.Settle()
	return nil
}

// rootPool is that of the cluster: vCenter asks nobody where a VM that it finds belongs.
func (s *Backups) rootPool(ctx *simulator.Context) *vim.Ref {
	cluster, ok := ctx.Map.Get(vim.Ref{Type: "ClusterComputeResource", Value: s.Found.Cluster}).(*simulator.ClusterComputeResource)
	if !ok {
		return nil
	}
	return cluster.ResourcePool
}

// discoveredFolder is made when it is first needed.
func (s *Backups) discoveredFolder(ctx *simulator.Context) (vim.Ref, error) {
	top, ok := ctx.Map.Get(vim.Ref{Type: "Datacenter", Value: s.Found.Datacenter}).(*simulator.Datacenter)
	if !ok {
		return vim.Ref{}, nil
	}
	if there, ok := s.inventory.ChildNamed(top.VmFolder, DiscoveredFolder); ok {
		return there, nil
	}
	made, err := s.inventory.MakeFolder(top.VmFolder, DiscoveredFolder)
	return made, err
}

// forgetTasks takes those off the list that were begun since; none runs.
func (s *Backups) forgetTasks(ctx *simulator.Context) {
	gone := map[vim.Ref]bool{}
	for _, o := range ctx.Map.AllReference("Task") {
		task, ok := o.(*simulator.Task)
		if !ok {
			continue
		}
		ctx.WithLock(task, func() { gone[task.Self] = task.Info.QueueTime.After(s.last.taken) })
	}
	left := func(tasks []vim.Ref) []vim.Ref {
		return slices.DeleteFunc(slices.Clone(tasks), func(task vim.Ref) bool { return gone[task] })
	}
	for _, o := range ctx.Map.AllReference("TaskManager") {
		if manager, ok := o.(*simulator.TaskManager); ok {
			ctx.WithLock(manager, func() { manager.RecentTask = left(manager.RecentTask) })
		}
	}
	for _, e := range ctx.Map.All("") {
		ctx.WithLock(e, func() { e.Entity().RecentTask = left(e.Entity().RecentTask) })
	}
	for task, is := range gone {
		if is {
			ctx.Map.Remove(ctx, task)
		}
	}
}

package main

import (
	"slices"
	"strings"
	"sync"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// What is out of vCenter's reach: hosts that are disconnected, datastores that are inaccessible, and the VMs on them. Whether
// the VMs themselves go on, vCenter does not know.

// outages says what is out of reach, and why.
type outages struct {
	mu     sync.Mutex
	vms    map[ref]vmOutage                        // as ordered
	hosts  map[ref]types.HostSystemConnectionState // as ordered
	stores map[ref]bool                            // as ordered
	now    map[ref]vmOutage                        // what follows for each VM
	lost   map[ref]bool                            // VMs that no host has any more
}

// vmOutage is how vCenter shows a VM that it cannot reach.
type vmOutage struct {
	state types.VirtualMachineConnectionState
	unset bool // its configuration cannot be read
}

var connected = vmOutage{state: types.VirtualMachineConnectionStateConnected}

// of is how vCenter shows the VM.
func (o *outages) of(vm ref) vmOutage {
	o.mu.Lock()
	defer o.mu.Unlock()
	if now, out := o.now[vm]; out {
		return now
	}
	return connected
}

func (o *outages) any() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.now) != 0
}

// calm tells whether every host and every datastore is there.
func (o *outages) calm() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.hosts) == 0 && len(o.stores) == 0
}

func (o *outages) hostAway(host ref) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, away := o.hosts[host]
	return away
}

func (o *outages) storeAway(store ref) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.stores[store]
}

// lose notes that no host has the VM any more, which no order ends.
func (o *outages) lose(vm ref) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.lost == nil {
		o.lost = map[ref]bool{}
	}
	o.lost[vm] = true
}

// loseVM shows a VM so until it is connected again. What vCenter can never read is unset.
func (s *Sim) loseVM(vm ref, state types.VirtualMachineConnectionState, unset bool) {
	unreadable := state == types.VirtualMachineConnectionStateInaccessible || state == types.VirtualMachineConnectionStateInvalid
	ordered := vmOutage{state, unreadable || unset}
	s.outages.mu.Lock()
	if ordered == connected {
		delete(s.outages.vms, vm)
	} else {
		s.outages.vms[vm] = ordered
	}
	s.outages.mu.Unlock()
	s.settleOutages()
}

// loseHost takes a host away, or brings it back as connected. It tells whether there is such a host.
func (s *Sim) loseHost(host ref, state types.HostSystemConnectionState) bool {
	ctx := s.fresh()
	if _, ok := ctx.Map.Get(host).(*simulator.HostSystem); !ok {
		return false
	}
	s.outages.mu.Lock()
	if state == types.HostSystemConnectionStateConnected {
		delete(s.outages.hosts, host)
	} else {
		s.outages.hosts[host] = state
	}
	s.outages.mu.Unlock()
	showHost(ctx, host, state)
	s.settleOutages()
	return true
}

// loseStore makes a datastore inaccessible, or accessible again. It tells whether there is such a datastore.
func (s *Sim) loseStore(store ref, accessible bool) bool {
	ctx := s.fresh()
	if _, ok := ctx.Map.Get(store).(*simulator.Datastore); !ok {
		return false
	}
	s.outages.mu.Lock()
	if accessible {
		delete(s.outages.stores, store)
	} else {
		s.outages.stores[store] = true
	}
	s.outages.mu.Unlock()
	showStore(ctx, store, accessible)
	s.settleOutages()
	return true
}

// endOutages brings everything back that was ordered away.
func (s *Sim) endOutages() {
	ctx := s.fresh()
	s.outages.mu.Lock()
	hosts, stores := s.outages.hosts, s.outages.stores
	s.outages.forget()
	s.outages.mu.Unlock()
	for host := range hosts {
		showHost(ctx, host, types.HostSystemConnectionStateConnected)
	}
	for store := range stores {
		showStore(ctx, store, true)
	}
	s.settleOutages()
}

func showHost(ctx *simulator.Context, self ref, state types.HostSystemConnectionState) {
	if host, ok := ctx.Map.Get(self).(*simulator.HostSystem); ok {
		ctx.WithLock(host, func() {
			ctx.Update(host, []types.PropertyChange{
				change("runtime.connectionState", state), change("summary.runtime.connectionState", state),
			})
		})
	}
}

func showStore(ctx *simulator.Context, self ref, accessible bool) {
	if store, ok := ctx.Map.Get(self).(*simulator.Datastore); ok {
		ctx.WithLock(store, func() {
			ctx.Update(store, []types.PropertyChange{change("summary.accessible", accessible)})
		})
	}
}

// forget ends all orders; the lock is held.
func (o *outages) forget() {
	o.vms, o.hosts = map[ref]vmOutage{}, map[ref]types.HostSystemConnectionState{}
	o.stores = map[ref]bool{}
	if o.now == nil {
		o.now = map[ref]vmOutage{}
	}
}

// settleOutages brings every VM to what follows from the orders.
func (s *Sim) settleOutages() {
	ctx := s.fresh()
	for _, e := range ctx.Map.All("VirtualMachine") {
		vm := e.(*simulator.VirtualMachine)
		ctx.WithLock(vm, func() {
			next := s.outageOf(ctx, vm)
			s.outages.mu.Lock()
			if next == connected {
				delete(s.outages.now, vm.Self)
			} else {
				s.outages.now[vm.Self] = next
			}
			s.outages.mu.Unlock()
			ctx.Update(vm, []types.PropertyChange{
				change("runtime.connectionState", next.state), change("summary.runtime.connectionState", next.state),
			})
		})
		s.hub.touch(vm.Self)
	}
}

// outageOf is called with the VM locked. What holds its files comes before what it is registered on.
func (s *Sim) outageOf(ctx *simulator.Context, vm *simulator.VirtualMachine) vmOutage {
	s.outages.mu.Lock()
	defer s.outages.mu.Unlock()
	if s.outages.lost[vm.Self] {
		return vmOutage{state: types.VirtualMachineConnectionStateOrphaned}
	}
	if ordered, ok := s.outages.vms[vm.Self]; ok {
		return ordered
	}
	var path object.DatastorePath
	path.FromString(vm.Config.Files.VmPathName)
	if s.outages.stores[ref{Type: "Datastore", Value: s.found.Datastores[path.Datastore]}] {
		return vmOutage{types.VirtualMachineConnectionStateInaccessible, true}
	}
	if vm.Runtime.Host != nil {
		if _, away := s.outages.hosts[*vm.Runtime.Host]; away {
			return vmOutage{state: types.VirtualMachineConnectionStateDisconnected}
		}
	}
	return connected
}

// readFromFiles are the properties that vCenter does not know when it cannot read a VM's files.
var readFromFiles = []string{
	"config", "guest", "layout", "layoutEx", "snapshot", "rootSnapshot", "storage", "resourceConfig", "summary.guest",
}

// keptOfSummary are the members of a VM's summary that vCenter's own records have.
var keptOfSummary = []string{"name", "template", "vmPathName"}

// leaveOutUnreadable takes off what vCenter does not know of VMs whose files it cannot read.
func (s *Sim) leaveOutUnreadable(objects []types.ObjectContent) {
	if !s.outages.any() {
		return
	}
	for i, seen := range objects {
		if seen.Obj.Type != "VirtualMachine" || !s.outages.of(seen.Obj).unset {
			continue
		}
		var kept []types.DynamicProperty
		for _, p := range seen.PropSet {
			if !unreadable(p.Name) {
				kept = append(kept, types.DynamicProperty{Name: p.Name, Val: unread(p.Val)})
			}
		}
		objects[i].PropSet = kept
	}
}

func unreadable(path string) bool {
	if member, ok := strings.CutPrefix(path, "summary.config."); ok {
		return !slices.Contains(keptOfSummary, member)
	}
	return slices.ContainsFunc(readFromFiles, func(root string) bool {
		return path == root || strings.HasPrefix(path, root+".")
	})
}

// unread is what is left of a property that is known in part. A host that cannot read a VM's files calls it off.
func unread(value types.AnyType) types.AnyType {
	const off = types.VirtualMachinePowerStatePoweredOff
	switch v := value.(type) {
	case types.VirtualMachineSummary:
		v.Config, v.Guest = summaryKept(v.Config), nil
		v.Runtime.PowerState = off
		return v
	case types.VirtualMachineConfigSummary:
		return summaryKept(v)
	case types.VirtualMachineRuntimeInfo:
		v.PowerState = off
		return v
	case types.VirtualMachinePowerState:
		return off
	}
	return value
}

func summaryKept(c types.VirtualMachineConfigSummary) types.VirtualMachineConfigSummary {
	return types.VirtualMachineConfigSummary{Name: c.Name, Template: c.Template, VmPathName: c.VmPathName}
}

// worksAnywhere are methods that need neither the host nor the files of a VM.
var worksAnywhere = []string{"UnregisterVM", "setCustomValue", "SetCustomValue", "RefreshStorageInfo", "reloadVirtualMachineFromPath_Task"}

// outOfReach is the fault of a client's call that needs what is out of reach.
func (s *Sim) outOfReach(k *call, body types.AnyType) types.BaseMethodFault {
	if clone, ok := body.(*types.CloneVM_Task); ok {
		location := clone.Spec.Location
		if store := location.Datastore; store != nil && s.outages.storeAway(*store) {
			return s.inaccessible(*store)
		}
		if host := location.Host; host != nil && s.outages.hostAway(*host) {
			return &types.HostNotConnected{}
		}
	}
	if k.this.Type == "HostSystem" && s.outages.hostAway(k.this) && strings.HasSuffix(k.name, "_Task") {
		return &types.HostNotConnected{}
	}
	if k.this.Type != "VirtualMachine" || slices.Contains(worksAnywhere, k.name) {
		return nil
	}
	switch out := s.outages.of(k.this); {
	case out == connected:
		return nil
	case out.state == types.VirtualMachineConnectionStateDisconnected:
		return &types.HostNotConnected{}
	default:
		return &types.InvalidState{}
	}
}

func (s *Sim) inaccessible(store ref) types.BaseMethodFault {
	fault := &types.InaccessibleDatastore{}
	fault.Datastore = &store
	for name, moid := range s.found.Datastores {
		if moid == store.Value {
			fault.Name = name
		}
	}
	return fault
}

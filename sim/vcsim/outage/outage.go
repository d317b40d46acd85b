// Package outage is what vCenter cannot reach: hosts, datastores and VMs.
package outage

import (
	"slices"
	"strings"
	"sync"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/core"
	"layercake.invalid/sim/vcsim/vim"
)

// What is out of vCenter's reach: hosts that are disconnected, datastores that are inaccessible, and the VMs on them. Whether
// the VMs themselves go on, vCenter does not know.

// Outages says what is out of reach, and why.
type Outages struct {
	*core.VCenter

	mu   sync.Mutex
	vms  map[vim.Ref]vmOutage // as ordered
	away map[vim.Ref]bool     // hosts and datastores, as ordered
	now  map[vim.Ref]vmOutage // of each VM, computed from the two above
	lost map[vim.Ref]bool     // VMs that no host has any more
}

// New gives the outages of a vCenter that has none.
func New(vc *core.VCenter) *Outages {
	return &Outages{
		VCenter: vc, vms: map[vim.Ref]vmOutage{}, away: map[vim.Ref]bool{}, now: map[vim.Ref]vmOutage{}, lost: map[vim.Ref]bool{},
	}
}

// vmOutage is how vCenter shows a VM that it cannot reach.
type vmOutage struct {
	state types.VirtualMachineConnectionState
	Unset bool // its configuration cannot be read
}

var connected = vmOutage{state: types.VirtualMachineConnectionStateConnected}

// Of is how vCenter shows the VM.
func (o *Outages) Of(vm vim.Ref) vmOutage {
	o.mu.Lock()
	defer o.mu.Unlock()
	if now, out := o.now[vm]; out {
		return now
	}
	return connected
}

func (o *Outages) any() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.now) != 0
}

// Calm tells whether every host and every datastore is there.
func (o *Outages) Calm() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.away) == 0
}

// Away tells whether a host or a datastore is out of reach.
func (o *Outages) Away(ref vim.Ref) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.away[ref]
}

func (o *Outages) setAway(ref vim.Ref, away bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if away {
		o.away[ref] = true
	} else {
		delete(o.away, ref)
	}
}

// Lose notes that no host has the VM any more, which no order ends.
func (o *Outages) Lose(vm vim.Ref) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lost[vm] = true
}

// LoseVM sets the connection state of a VM until it is connected again. The configuration of an inaccessible or invalid VM
// is always unset.
func (o *Outages) LoseVM(vm vim.Ref, state types.VirtualMachineConnectionState, unset bool) {
	unreadable := state == types.VirtualMachineConnectionStateInaccessible || state == types.VirtualMachineConnectionStateInvalid
	ordered := vmOutage{state, unreadable || unset}
	o.mu.Lock()
	if ordered == connected {
		delete(o.vms, vm)
	} else {
		o.vms[vm] = ordered
	}
	o.mu.Unlock()
	o.Settle()
}

// LoseHost disconnects a host or connects it again.
func (o *Outages) LoseHost(host vim.Ref, state types.HostSystemConnectionState) {
	ctx := o.Fresh()
	if _, ok := ctx.Map.Get(host).(*simulator.HostSystem); !ok {
		return
	}
	o.setAway(host, state != types.HostSystemConnectionStateConnected)
	showHost(ctx, host, state)
	o.Settle()
}

// LoseStore makes a datastore inaccessible, or accessible again. It tells whether there is such a datastore.
func (o *Outages) LoseStore(store vim.Ref, accessible bool) bool {
	ctx := o.Fresh()
	if _, ok := ctx.Map.Get(store).(*simulator.Datastore); !ok {
		return false
	}
	o.setAway(store, !accessible)
	showStore(ctx, store, accessible)
	o.Settle()
	return true
}

// End brings everything back that was ordered away.
func (o *Outages) End() {
	ctx := o.Fresh()
	o.mu.Lock()
	ended := o.away
	o.vms, o.away = map[vim.Ref]vmOutage{}, map[vim.Ref]bool{}
	o.mu.Unlock()
	for ref := range ended {
		showHost(ctx, ref, types.HostSystemConnectionStateConnected)
		showStore(ctx, ref, true)
	}
	o.Settle()
}

// showHost does nothing if the reference is not that of a host.
func showHost(ctx *simulator.Context, self vim.Ref, state types.HostSystemConnectionState) {
	if host, ok := ctx.Map.Get(self).(*simulator.HostSystem); ok {
		ctx.WithLock(host, func() {
			ctx.Update(host, []types.PropertyChange{
				vim.Change("runtime.connectionState", state), vim.Change("summary.runtime.connectionState", state),
			})
		})
	}
}

// showStore does nothing if the reference is not that of a datastore.
func showStore(ctx *simulator.Context, self vim.Ref, accessible bool) {
	if store, ok := ctx.Map.Get(self).(*simulator.Datastore); ok {
		ctx.WithLock(store, func() {
			ctx.Update(store, []types.PropertyChange{vim.Change("summary.accessible", accessible)})
		})
	}
}

// Settle brings every VM to what follows from the orders.
func (o *Outages) Settle() {
	ctx := o.Fresh()
	for _, e := range ctx.Map.All("VirtualMachine") {
		vm := e.(*simulator.VirtualMachine)
		ctx.WithLock(vm, func() {
			next := o.outageOf(ctx, vm)
			o.mu.Lock()
			if next == connected {
				delete(o.now, vm.Self)
			} else {
				o.now[vm.Self] = next
			}
			o.mu.Unlock()
			ctx.Update(vm, []types.PropertyChange{
				vim.Change("runtime.connectionState", next.state), vim.Change("summary.runtime.connectionState", next.state),
			})
		})
		o.Hub.Touch(vm.Self)
	}
}

// outageOf is called with the VM locked. What holds its files comes before what it is registered on.
func (o *Outages) outageOf(ctx *simulator.Context, vm *simulator.VirtualMachine) vmOutage {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.lost[vm.Self] {
		return vmOutage{state: types.VirtualMachineConnectionStateOrphaned}
	}
	if ordered, ok := o.vms[vm.Self]; ok {
		return ordered
	}
	var path object.DatastorePath
	path.FromString(vm.Config.Files.VmPathName)
	if o.away[vim.Ref{Type: "Datastore", Value: o.Found.Datastores[path.Datastore]}] {
		return vmOutage{types.VirtualMachineConnectionStateInaccessible, true}
	}
	if vm.Runtime.Host != nil && o.away[*vm.Runtime.Host] {
		return vmOutage{state: types.VirtualMachineConnectionStateDisconnected}
	}
	return connected
}

// readFromFiles are the properties that vCenter does not know when it cannot read a VM's files.
var readFromFiles = []string{
	"config", "guest", "layout", "layoutEx", "snapshot", "rootSnapshot", "storage", "resourceConfig", "summary.guest",
}

// keptOfSummary are the members of a VM's summary that vCenter's own records have.
var keptOfSummary = []string{"name", "template", "vmPathName"}

// LeaveOut takes off what vCenter does not know of VMs whose files it cannot read.
func (o *Outages) LeaveOut(objects []types.ObjectContent) {
	if !o.any() {
		return
	}
	for i, seen := range objects {
		if seen.Obj.Type != "VirtualMachine" || !o.Of(seen.Obj).Unset {
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

// OutOfReach is the fault of a client's call that needs what is out of reach.
func (o *Outages) OutOfReach(k *core.Call, body types.AnyType) types.BaseMethodFault {
	if clone, ok := body.(*types.CloneVM_Task); ok {
		location := clone.Spec.Location
		if store := location.Datastore; store != nil && o.Away(*store) {
			return o.Inaccessible(*store)
		}
		if host := location.Host; host != nil && o.Away(*host) {
			return &types.HostNotConnected{}
		}
	}
	if k.This.Type == "HostSystem" && o.Away(k.This) && strings.HasSuffix(k.Name, "_Task") && k.Name != "ReconnectHost_Task" {
		return &types.HostNotConnected{}
	}
	if k.This.Type != "VirtualMachine" || slices.Contains(worksAnywhere, k.Name) {
		return nil
	}
	switch out := o.Of(k.This); {
	case out == connected:
		return nil
	case out.state == types.VirtualMachineConnectionStateDisconnected:
		return &types.HostNotConnected{}
	default:
		return &types.InvalidState{}
	}
}

// Inaccessible is the fault of a call that needs a datastore which is out of reach.
func (o *Outages) Inaccessible(store vim.Ref) types.BaseMethodFault {
	fault := &types.InaccessibleDatastore{}
	fault.Datastore = &store
	for name, moid := range o.Found.Datastores {
		if moid == store.Value {
			fault.Name = name
		}
	}
	return fault
}

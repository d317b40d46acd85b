package inventory

import (
	"slices"
	"sync"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/core"
	"layercake.invalid/sim/vcsim/vim"
)

// hostsOf are the cluster's hosts that are up.
func (inv *Inventory) hostsOf(ctx *simulator.Context, pool vim.Ref) []*simulator.HostSystem {
	p, ok := ctx.Map.Get(pool).(*simulator.ResourcePool)
	if !ok {
		return nil
	}
	var hosts []*simulator.HostSystem
	for _, e := range ctx.Map.All("HostSystem") {
		host := e.(*simulator.HostSystem)
		ctx.WithLock(host, func() {
			if host.Parent != nil && *host.Parent == p.Owner && !host.Runtime.InMaintenanceMode &&
				!inv.outages.Away(host.Self) {
				hosts = append(hosts, host)
			}
		})
	}
	return hosts
}

// ChooseHost is a small DRS: the host with the fewest VMs among those that see the datastore, and in turn, for clones
// that are still running are not counted.
func (inv *Inventory) ChooseHost(ctx *simulator.Context, pool vim.Ref, datastore string) (chosen vim.Ref, ok bool) {
	least := -1
	hosts := inv.hostsOf(ctx, pool)
	slices.SortFunc(hosts, func(a, b *simulator.HostSystem) int { return vim.CompareRefs(a.Self, b.Self) })
	turn := int(inv.turn.Add(1))
	for i := range hosts {
		host := hosts[(i+turn)%len(hosts)]
		var stores []vim.Ref
		var vms int
		ctx.WithLock(host, func() { stores, vms = append(stores, host.Datastore...), len(host.Vm) })
		if ctx.Map.FindByName(datastore, stores) != nil && (least < 0 || vms < least) {
			chosen, least = host.Self, vms
		}
	}
	return chosen, least >= 0
}

// Threads are those of the host of the VM's cluster that has most, which is the most CPUs that the VM can have.
func (inv *Inventory) Threads(ctx *simulator.Context, self vim.Ref) (most int32) {
	inv.Machines.Refresh()
	me, ok := inv.Machines.Row(self)
	if !ok {
		return 0
	}
	for _, host := range inv.hostsOf(ctx, me.Pool) {
		ctx.WithLock(host, func() { most = max(most, int32(host.Summary.Hardware.NumCpuThreads)) })
	}
	return most
}

// admitted are the VMs that are being powered on.
type admitted struct {
	mu  sync.Mutex
	vms map[vim.Ref]bool
}

// Set notes whether a VM is being powered on.
func (a *admitted) Set(vm vim.Ref, is bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.vms == nil {
		a.vms = map[vim.Ref]bool{}
	}
	if is {
		a.vms[vm] = true
	} else {
		delete(a.vms, vm)
	}
}

func (a *admitted) has(vm vim.Ref) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.vms[vm]
}

// isOn tells whether a VM is on, or is being powered on.
func (inv *Inventory) isOn(vm vim.Ref, row core.Row) bool {
	return row.PowerState == string(types.VirtualMachinePowerStatePoweredOn) || inv.Admitted.has(vm)
}

// used sums up the demands of the VMs that are on, or are being powered on, and that the test selects.
func (inv *Inventory) used(selects func(core.Row) bool) (sum core.Demand) {
	inv.Machines.Each(func(r vim.Ref, row core.Row) {
		if inv.isOn(r, row) && selects(row) {
			sum = sum.Plus(row.Demand)
		}
	})
	return sum
}

// free is what a host has left beside the VMs that are on it, apart from one.
func (inv *Inventory) free(ctx *simulator.Context, host *simulator.HostSystem, self vim.Ref) (capacity core.Demand) {
	ctx.WithLock(host, func() {
		h := host.Summary.Hardware
		capacity = core.Demand{Memory: h.MemorySize >> 20, CPU: int64(h.CpuMhz) * int64(h.NumCpuCores)}
	})
	return capacity.Minus(inv.used(func(r core.Row) bool { return r.Host == host.Self && r.MoID != self.Value }))
}

// Admit decides whether the VM's reservations can be met, and on which host. The caller holds the admission lock.
func (inv *Inventory) Admit(ctx *simulator.Context, self vim.Ref, extra core.Demand) (vim.Ref, types.BaseMethodFault) {
	inv.Machines.Refresh()
	me, ok := inv.Machines.Row(self)
	if !ok {
		return vim.Ref{}, &types.ManagedObjectNotFound{Obj: self}
	}
	wanted := me.Demand.Plus(extra)
	if fault := inv.admitToPool(ctx, self, me.Pool, wanted); fault != nil {
		return vim.Ref{}, fault
	}
	avoided := inv.avoided(self)
	var best core.Demand
	for _, host := range inv.hostsOf(ctx, me.Pool) {
		free := inv.free(ctx, host, self)
		if free.Covers(wanted) && host.Self == me.Host && !avoided[me.Host] {
			return me.Host, nil
		}
		best = core.Demand{Memory: max(best.Memory, free.Memory), CPU: max(best.CPU, free.CPU)}
	}
	return inv.otherHost(ctx, self, me, wanted, best, avoided)
}

// otherHost moves the VM where there is room, and if possible none of those that it is kept apart from.
func (inv *Inventory) otherHost(
	ctx *simulator.Context, self vim.Ref, me core.Row, wanted, best core.Demand, avoided map[vim.Ref]bool,
) (vim.Ref, types.BaseMethodFault) {
	var fallback *vim.Ref
	for _, host := range inv.hostsOf(ctx, me.Pool) {
		free := inv.free(ctx, host, self)
		if free.Covers(wanted) {
			if !avoided[host.Self] {
				return host.Self, nil
			}
			if fallback == nil || host.Self == me.Host {
				fallback = &host.Self
			}
		}
	}
	if fallback != nil {
		return *fallback, nil
	}
	return vim.Ref{}, insufficient(wanted, best)
}

// admitToPool walks up the pools: what one cannot give out of its own reservation, its parent must, if it may expand.
func (inv *Inventory) admitToPool(ctx *simulator.Context, self, pool vim.Ref, wanted core.Demand) types.BaseMethodFault {
	for {
		config, above, ok := poolAbove(ctx, pool)
		if !ok || above == nil {
			return nil
		}
		used := inv.used(func(r core.Row) bool { return r.MoID != self.Value && inv.inPool(ctx, r.Pool, pool) })
		memory, memoryLimit := vim.Allocation(&config.MemoryAllocation)
		cpu, cpuLimit := vim.Allocation(&config.CpuAllocation)
		if limited := (core.Demand{Memory: left(memoryLimit, used.Memory), CPU: left(cpuLimit, used.CPU)}); !limited.Covers(wanted) {
			return insufficient(wanted, limited)
		}
		own := core.Demand{Memory: memory, CPU: cpu}.Minus(used)
		if own.Covers(wanted) {
			return nil
		}
		if own.Memory < wanted.Memory && !expandable(config.MemoryAllocation) ||
			own.CPU < wanted.CPU && !expandable(config.CpuAllocation) {
			return insufficient(wanted, own)
		}
		pool = *above
	}
}

// poolAbove returns the settings of a pool and the pool that it is in. The root pool is in none: it has what the hosts have.
func poolAbove(ctx *simulator.Context, pool vim.Ref) (config types.ResourceConfigSpec, above *vim.Ref, ok bool) {
	p, ok := ctx.Map.Get(pool).(*simulator.ResourcePool)
	if !ok {
		return config, nil, false
	}
	ctx.WithLock(p, func() { config, above = p.Config, p.Parent })
	if above != nil && above.Type != "ResourcePool" {
		above = nil
	}
	return config, above, true
}

// expandable tells whether a pool may reserve more than its own reservation, from the pool that it is in.
func expandable(info types.ResourceAllocationInfo) bool {
	return info.ExpandableReservation == nil || *info.ExpandableReservation
}

// admitPool decides whether a new pool can reserve what its settings want.
func (inv *Inventory) admitPool(ctx *simulator.Context, above vim.Ref, config *types.ResourceConfigSpec) types.BaseMethodFault {
	var wanted, most core.Demand
	wanted.Memory, _ = vim.Allocation(&config.MemoryAllocation)
	wanted.CPU, _ = vim.Allocation(&config.CpuAllocation)
	if wanted == most {
		return nil
	}
	if fault := inv.admitToPool(ctx, vim.Ref{}, above, wanted); fault != nil {
		return fault
	}
	for _, host := range inv.hostsOf(ctx, above) {
		most = most.Plus(inv.free(ctx, host, vim.Ref{}))
	}
	if !most.Covers(wanted) {
		return insufficient(wanted, most)
	}
	return nil
}

// Unreserved is what a pool can still give to the reservations of its VMs: what is left of its own reservation, and, if it may expand,
// of those above it.
func (inv *Inventory) Unreserved(ctx *simulator.Context, pool vim.Ref) (free core.Demand) {
	config, parent, ok := poolAbove(ctx, pool)
	if !ok {
		return free
	}
	if parent == nil {
		for _, host := range inv.hostsOf(ctx, pool) {
			free = free.Plus(inv.free(ctx, host, vim.Ref{}))
		}
		return free
	}
	used := inv.used(func(r core.Row) bool { return inv.inPool(ctx, r.Pool, pool) })
	above := inv.Unreserved(ctx, *parent)
	of := func(info types.ResourceAllocationInfo, used, above int64) int64 {
		reservation, limit := vim.Allocation(&info)
		free := max(reservation-used, 0)
		if expandable(info) {
			free += above
		}
		return max(min(free, left(limit, used)), 0)
	}
	free.Memory = of(config.MemoryAllocation, used.Memory, above.Memory)
	free.CPU = of(config.CpuAllocation, used.CPU, above.CPU)
	return free
}

// left is what a limit leaves; no limit leaves everything.
func left(limit, used int64) int64 {
	if limit < 0 {
		return 1 << 50
	}
	return limit - used
}

func (inv *Inventory) inPool(ctx *simulator.Context, pool, above vim.Ref) bool {
	for pool != above {
		_, parent, ok := poolAbove(ctx, pool)
		if !ok || parent == nil {
			return false
		}
		pool = *parent
	}
	return true
}

func insufficient(wanted, free core.Demand) types.BaseMethodFault {
	if free.Memory < wanted.Memory {
		return &types.InsufficientMemoryResourcesFault{Unreserved: free.Memory << 20, Requested: wanted.Memory << 20}
	}
	return &types.InsufficientCpuResourcesFault{Unreserved: free.CPU, Requested: wanted.CPU}
}

// Reachable is the host of a VM that is to be made: the one that was asked for, else any that is there while others are away.
func (inv *Inventory) Reachable(ctx *simulator.Context, pool vim.Ref, host *vim.Ref, files *types.VirtualMachineFileInfo) (*vim.Ref, types.BaseMethodFault) {
	var path object.DatastorePath
	if inv.outages.Calm() || files == nil || !path.FromString(files.VmPathName) {
		return host, nil
	}
	if store := (vim.Ref{Type: "Datastore", Value: inv.Found.Datastores[path.Datastore]}); inv.outages.Away(store) {
		return nil, inv.outages.Inaccessible(store)
	}
	if host != nil {
		if inv.outages.Away(*host) {
			return nil, &types.HostNotConnected{}
		}
		return host, nil
	}
	chosen, ok := inv.ChooseHost(ctx, pool, path.Datastore)
	if !ok {
		return nil, &types.NoCompatibleHost{}
	}
	return &chosen, nil
}

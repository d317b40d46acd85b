package main

import (
	"slices"
	"sync"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// hostsOf are the cluster's hosts that are up.
func (s *Sim) hostsOf(ctx *simulator.Context, pool ref) []*simulator.HostSystem {
	p, ok := ctx.Map.Get(pool).(*simulator.ResourcePool)
	if !ok {
		return nil
	}
	var hosts []*simulator.HostSystem
	for _, e := range ctx.Map.All("HostSystem") {
		host := e.(*simulator.HostSystem)
		ctx.WithLock(host, func() {
			if host.Parent != nil && *host.Parent == p.Owner && !host.Runtime.InMaintenanceMode &&
				!s.outages.hostAway(host.Self) {
				hosts = append(hosts, host)
			}
		})
	}
	return hosts
}

// chooseHost is a small DRS: the host with the fewest VMs among those that see the datastore, and in turn, for clones
// that are still running are not counted.
func (s *Sim) chooseHost(ctx *simulator.Context, pool ref, datastore string) (chosen ref, ok bool) {
	least := -1
	hosts := s.hostsOf(ctx, pool)
	slices.SortFunc(hosts, func(a, b *simulator.HostSystem) int { return compareRefs(a.Self, b.Self) })
	turn := int(s.turn.Add(1))
	for i := range hosts {
		host := hosts[(i+turn)%len(hosts)]
		var stores []ref
		var vms int
		ctx.WithLock(host, func() { stores, vms = append(stores, host.Datastore...), len(host.Vm) })
		if ctx.Map.FindByName(datastore, stores) != nil && (least < 0 || vms < least) {
			chosen, least = host.Self, vms
		}
	}
	return chosen, least >= 0
}

// admitted are the VMs that are being powered on.
type admitted struct {
	mu  sync.Mutex
	vms map[ref]bool
}

func (a *admitted) set(vm ref, is bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.vms == nil {
		a.vms = map[ref]bool{}
	}
	if is {
		a.vms[vm] = true
	} else {
		delete(a.vms, vm)
	}
}

func (a *admitted) has(vm ref) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.vms[vm]
}

// isOn tells whether a VM is on, or is being powered on.
func (s *Sim) isOn(vm ref, row row) bool {
	return row.PowerState == string(types.VirtualMachinePowerStatePoweredOn) || s.admitted.has(vm)
}

// used sums up the demands of the VMs that are on, or are being powered on, and that the test selects.
func (s *Sim) used(selects func(row) bool) (sum demand) {
	s.machines.each(func(r ref, row row) {
		if s.isOn(r, row) && selects(row) {
			sum = sum.plus(row.demand)
		}
	})
	return sum
}

// admit decides whether the VM's reservations can be met, and on which host. The caller holds the admission lock.
func (s *Sim) admit(ctx *simulator.Context, self ref, extra demand) (ref, types.BaseMethodFault) {
	s.machines.refresh()
	me, ok := s.machines.row(self)
	if !ok {
		return ref{}, &types.ManagedObjectNotFound{Obj: self}
	}
	wanted := me.demand.plus(extra)
	if fault := s.admitToPool(ctx, self, me.pool, wanted); fault != nil {
		return ref{}, fault
	}
	avoided := s.avoided(self)
	var best demand
	for _, host := range s.hostsOf(ctx, me.pool) {
		var capacity demand
		ctx.WithLock(host, func() {
			h := host.Summary.Hardware
			capacity = demand{h.MemorySize >> 20, int64(h.CpuMhz) * int64(h.NumCpuCores)}
		})
		free := capacity.minus(s.used(func(r row) bool { return r.host == host.Self && r.MoID != self.Value }))
		if free.memory >= wanted.memory && free.cpu >= wanted.cpu && host.Self == me.host && !avoided[me.host] {
			return me.host, nil
		}
		best = demand{max(best.memory, free.memory), max(best.cpu, free.cpu)}
	}
	return s.otherHost(ctx, self, me, wanted, best, avoided)
}

// otherHost moves the VM where there is room, and if possible none of those that it is kept apart from.
func (s *Sim) otherHost(
	ctx *simulator.Context, self ref, me row, wanted, best demand, avoided map[ref]bool,
) (ref, types.BaseMethodFault) {
	var fallback *ref
	for _, host := range s.hostsOf(ctx, me.pool) {
		var capacity demand
		ctx.WithLock(host, func() {
			h := host.Summary.Hardware
			capacity = demand{h.MemorySize >> 20, int64(h.CpuMhz) * int64(h.NumCpuCores)}
		})
		free := capacity.minus(s.used(func(r row) bool { return r.host == host.Self && r.MoID != self.Value }))
		if free.memory >= wanted.memory && free.cpu >= wanted.cpu {
			if !avoided[host.Self] {
				return host.Self, nil
			}
			if fallback == nil || host.Self == me.host {
				fallback = &host.Self
			}
		}
	}
	if fallback != nil {
		return *fallback, nil
	}
	return ref{}, insufficient(wanted, best)
}

// admitToPool walks up the pools: what one cannot give out of its own reservation, its parent must, if it may expand.
func (s *Sim) admitToPool(ctx *simulator.Context, self, pool ref, wanted demand) types.BaseMethodFault {
	for {
		p, ok := ctx.Map.Get(pool).(*simulator.ResourcePool)
		if !ok {
			return nil
		}
		var config types.ResourceConfigSpec
		var parent *ref
		ctx.WithLock(p, func() { config, parent = p.Config, p.Parent })
		if parent == nil || parent.Type != "ResourcePool" {
			return nil // the root pool has what the hosts have
		}
		used := s.used(func(r row) bool { return r.MoID != self.Value && s.inPool(ctx, r.pool, pool) })
		memory, memoryLimit := allocation(&config.MemoryAllocation)
		cpu, cpuLimit := allocation(&config.CpuAllocation)
		if limited := (demand{left(memoryLimit, used.memory), left(cpuLimit, used.cpu)}); limited.memory < wanted.memory || limited.cpu < wanted.cpu {
			return insufficient(wanted, limited)
		}
		own := demand{memory, cpu}.minus(used)
		if own.memory >= wanted.memory && own.cpu >= wanted.cpu {
			return nil
		}
		expandable := func(info types.ResourceAllocationInfo) bool {
			return info.ExpandableReservation == nil || *info.ExpandableReservation
		}
		if own.memory < wanted.memory && !expandable(config.MemoryAllocation) ||
			own.cpu < wanted.cpu && !expandable(config.CpuAllocation) {
			return insufficient(wanted, own)
		}
		pool = *parent
	}
}

// left is what a limit leaves; no limit leaves everything.
func left(limit, used int64) int64 {
	if limit < 0 {
		return 1 << 50
	}
	return limit - used
}

func (s *Sim) inPool(ctx *simulator.Context, pool, above ref) bool {
	for pool != above {
		p, ok := ctx.Map.Get(pool).(*simulator.ResourcePool)
		if !ok {
			return false
		}
		var parent *ref
		ctx.WithLock(p, func() { parent = p.Parent })
		if parent == nil {
			return false
		}
		pool = *parent
	}
	return true
}

func insufficient(wanted, free demand) types.BaseMethodFault {
	if free.memory < wanted.memory {
		return &types.InsufficientMemoryResourcesFault{Unreserved: free.memory << 20, Requested: wanted.memory << 20}
	}
	return &types.InsufficientCpuResourcesFault{Unreserved: free.cpu, Requested: wanted.cpu}
}

// reachable is the host of a VM that is to be made: the one that was asked for, else any that is there while others are away.
func (s *Sim) reachable(ctx *simulator.Context, pool ref, host *ref, files *types.VirtualMachineFileInfo) (*ref, types.BaseMethodFault) {
	var path object.DatastorePath
	if s.outages.calm() || files == nil || !path.FromString(files.VmPathName) {
		return host, nil
	}
	if store := (ref{Type: "Datastore", Value: s.found.Datastores[path.Datastore]}); s.outages.storeAway(store) {
		return nil, s.inaccessible(store)
	}
	if host != nil {
		if s.outages.hostAway(*host) {
			return nil, &types.HostNotConnected{}
		}
		return host, nil
	}
	chosen, ok := s.chooseHost(ctx, pool, path.Datastore)
	if !ok {
		return nil, &types.NoCompatibleHost{}
	}
	return &chosen, nil
}

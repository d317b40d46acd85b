package main

import (
	"net/http"
	"slices"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// Outages as tests order them, and their ends.

var vmStates = []types.VirtualMachineConnectionState{
	types.VirtualMachineConnectionStateConnected, types.VirtualMachineConnectionStateDisconnected,
	types.VirtualMachineConnectionStateOrphaned, types.VirtualMachineConnectionStateInaccessible,
	types.VirtualMachineConnectionStateInvalid,
}

// controlVMOutage shows a VM as one that vCenter cannot reach, until it is ordered to be connected. Its configuration is
// unset where vCenter cannot read it: of one that is inaccessible or invalid always, else if the order says so.
func (s *Sim) controlVMOutage(r *http.Request) (any, error) {
	var order struct {
		State  types.VirtualMachineConnectionState `json:"state"`
		Config string                              `json:"config"` // unset, or kept
	}
	_, vm, err := s.controlVM(r)
	if err == nil {
		err = decodeStrict(r, &order)
	}
	if err != nil {
		return nil, err
	}
	if !slices.Contains(vmStates, order.State) || !slices.Contains([]string{"", "unset", "kept"}, order.Config) {
		return nil, refuse(http.StatusBadRequest, "state must be one of %v, config unset or kept", vmStates)
	}
	unreadable := order.State == types.VirtualMachineConnectionStateInaccessible || order.State == types.VirtualMachineConnectionStateInvalid
	ordered := vmOutage{order.State, unreadable || order.Config == "unset"}
	s.outages.mu.Lock()
	if ordered == connected {
		delete(s.outages.vms, vm.Self)
	} else {
		s.outages.vms[vm.Self] = ordered
	}
	s.outages.mu.Unlock()
	s.settleOutages()
	return nil, nil
}

// controlHostOutage takes a host away, or brings it back.
func (s *Sim) controlHostOutage(r *http.Request) (any, error) {
	var order struct {
		State types.HostSystemConnectionState `json:"state"`
	}
	if err := decodeStrict(r, &order); err != nil {
		return nil, err
	}
	ctx := fresh(s.svc)
	host, ok := ctx.Map.Get(ref{Type: "HostSystem", Value: r.PathValue("moid")}).(*simulator.HostSystem)
	if !ok {
		return nil, refuse(http.StatusNotFound, "host %s does not exist", r.PathValue("moid"))
	}
	s.outages.mu.Lock()
	switch order.State {
	case types.HostSystemConnectionStateConnected:
		delete(s.outages.hosts, host.Self)
	case types.HostSystemConnectionStateDisconnected, types.HostSystemConnectionStateNotResponding:
		s.outages.hosts[host.Self] = order.State
	default:
		s.outages.mu.Unlock()
		return nil, refuse(http.StatusBadRequest, "state %q: must be connected, disconnected or notResponding", order.State)
	}
	s.outages.mu.Unlock()
	ctx.WithLock(host, func() {
		ctx.Update(host, []types.PropertyChange{
			change("runtime.connectionState", order.State), change("summary.runtime.connectionState", order.State),
		})
	})
	s.settleOutages()
	return nil, nil
}

// controlStoreOutage makes a datastore inaccessible, or accessible again.
func (s *Sim) controlStoreOutage(r *http.Request) (any, error) {
	var order struct {
		Accessible bool `json:"accessible"`
	}
	if err := decodeStrict(r, &order); err != nil {
		return nil, err
	}
	store := ref{Type: "Datastore", Value: s.found.Datastores[r.PathValue("name")]}
	ctx := fresh(s.svc)
	datastore, ok := ctx.Map.Get(store).(*simulator.Datastore)
	if !ok {
		return nil, refuse(http.StatusNotFound, "datastore %s does not exist", r.PathValue("name"))
	}
	s.outages.mu.Lock()
	if order.Accessible {
		delete(s.outages.stores, store)
	} else {
		s.outages.stores[store] = true
	}
	s.outages.mu.Unlock()
	ctx.WithLock(datastore, func() {
		ctx.Update(datastore, []types.PropertyChange{change("summary.accessible", order.Accessible)})
	})
	s.settleOutages()
	return nil, nil
}

// controlEndOutages brings everything back.
func (s *Sim) controlEndOutages(r *http.Request) (any, error) {
	ctx := fresh(s.svc)
	s.outages.mu.Lock()
	hosts, stores := s.outages.hosts, s.outages.stores
	s.outages.forget()
	s.outages.mu.Unlock()
	for host := range hosts {
		if h, ok := ctx.Map.Get(host).(*simulator.HostSystem); ok {
			ctx.WithLock(h, func() {
				state := types.HostSystemConnectionStateConnected
				ctx.Update(h, []types.PropertyChange{
					change("runtime.connectionState", state), change("summary.runtime.connectionState", state),
				})
			})
		}
	}
	for store := range stores {
		if d, ok := ctx.Map.Get(store).(*simulator.Datastore); ok {
			ctx.WithLock(d, func() { ctx.Update(d, []types.PropertyChange{change("summary.accessible", true)}) })
		}
	}
	s.settleOutages()
	return nil, nil
}

// forget is called with the lock held.
func (o *outages) forget() {
	o.vms, o.hosts = map[ref]vmOutage{}, map[ref]types.HostSystemConnectionState{}
	o.stores = map[ref]bool{}
	if o.now == nil {
		o.now = map[ref]vmOutage{}
	}
}

package control

import (
	"net/http"
	"slices"

	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/vim"
)

// Outages as tests order them.

var vmStates = []types.VirtualMachineConnectionState{
	types.VirtualMachineConnectionStateConnected, types.VirtualMachineConnectionStateDisconnected,
	types.VirtualMachineConnectionStateOrphaned, types.VirtualMachineConnectionStateInaccessible,
	types.VirtualMachineConnectionStateInvalid,
}

var hostStates = []types.HostSystemConnectionState{
	types.HostSystemConnectionStateConnected, types.HostSystemConnectionStateDisconnected,
	types.HostSystemConnectionStateNotResponding,
}

// loseVM shows a VM as one that vCenter cannot reach, until it is ordered to be connected. Its configuration is unset
// where vCenter cannot read it: of one that is inaccessible or invalid always, else if the order says so.
func (api *API) loseVM(vm target, o vmOutage) (any, error) {
	if !slices.Contains(vmStates, o.State) || !slices.Contains([]string{"", "unset", "kept"}, o.Config) {
		return nil, invalid("state must be one of %v, config unset or kept", vmStates)
	}
	api.Outages.LoseVM(vm.Self, o.State, o.Config == "unset")
	return nil, nil
}

// loseHost takes a host away, or brings it back.
func (api *API) loseHost(r *http.Request, o hostOutage) (any, error) {
	host := vim.Ref{Type: "HostSystem", Value: r.PathValue("moid")}
	switch {
	case api.Registry.Get(host) == nil:
		return nil, notFound("host %s does not exist", host.Value)
	case !slices.Contains(hostStates, o.State):
		return nil, invalid("state %q: must be connected, disconnected or notResponding", o.State)
	}
	api.Outages.LoseHost(host, o.State)
	return nil, nil
}

// loseStore makes a datastore inaccessible, or accessible again.
func (api *API) loseStore(r *http.Request, o storeOutage) (any, error) {
	store := vim.Ref{Type: "Datastore", Value: api.Found.Datastores[r.PathValue("name")]}
	if !api.Outages.LoseStore(store, o.Accessible) {
		return nil, notFound("datastore %s does not exist", r.PathValue("name"))
	}
	return nil, nil
}

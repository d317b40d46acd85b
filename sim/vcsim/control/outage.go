package control

import (
	"net/http"
	"slices"

	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/vim"
)

// Outages as tests order them, and their ends.

var vmStates = []types.VirtualMachineConnectionState{
	types.VirtualMachineConnectionStateConnected, types.VirtualMachineConnectionStateDisconnected,
	types.VirtualMachineConnectionStateOrphaned, types.VirtualMachineConnectionStateInaccessible,
	types.VirtualMachineConnectionStateInvalid,
}

var hostStates = []types.HostSystemConnectionState{
	types.HostSystemConnectionStateConnected, types.HostSystemConnectionStateDisconnected,
	types.HostSystemConnectionStateNotResponding,
}

// controlVMOutage shows a VM as one that vCenter cannot reach, until it is ordered to be connected. Its configuration is
// unset where vCenter cannot read it: of one that is inaccessible or invalid always, else if the order says so.
func (api *API) controlVMOutage(r *http.Request) (any, error) {
	var order struct {
		State  types.VirtualMachineConnectionState `json:"state"`
		Config string                              `json:"config"` // unset, or kept
	}
	_, vm, err := api.controlVM(r)
	if err == nil {
		err = decodeStrict(r, &order)
	}
	if err != nil {
		return nil, err
	}
	if !slices.Contains(vmStates, order.State) || !slices.Contains([]string{"", "unset", "kept"}, order.Config) {
		return nil, refuse(http.StatusBadRequest, "state must be one of %v, config unset or kept", vmStates)
	}
	api.Outages.LoseVM(vm.Self, order.State, order.Config == "unset")
	return nil, nil
}

// controlHostOutage takes a host away, or brings it back.
func (api *API) controlHostOutage(r *http.Request) (any, error) {
	var order struct {
		State types.HostSystemConnectionState `json:"state"`
	}
	if err := decodeStrict(r, &order); err != nil {
		return nil, err
	}
	host := vim.Ref{Type: "HostSystem", Value: r.PathValue("moid")}
	switch {
	case api.Registry.Get(host) == nil:
		return nil, refuse(http.StatusNotFound, "host %s does not exist", host.Value)
	case !slices.Contains(hostStates, order.State):
		return nil, refuse(http.StatusBadRequest, "state %q: must be connected, disconnected or notResponding", order.State)
	}
	api.Outages.LoseHost(host, order.State)
	return nil, nil
}

// controlStoreOutage makes a datastore inaccessible, or accessible again.
func (api *API) controlStoreOutage(r *http.Request) (any, error) {
	var order struct {
		Accessible bool `json:"accessible"`
	}
	if err := decodeStrict(r, &order); err != nil {
		return nil, err
	}
	store := vim.Ref{Type: "Datastore", Value: api.Found.Datastores[r.PathValue("name")]}
	if !api.Outages.LoseStore(store, order.Accessible) {
		return nil, refuse(http.StatusNotFound, "datastore %s does not exist", r.PathValue("name"))
	}
	return nil, nil
}

// controlEndOutages brings everything back.
func (api *API) controlEndOutages(*http.Request) (any, error) {
	api.Outages.End()
	return nil, nil
}

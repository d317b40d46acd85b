package outage

import (
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/core"
	"layercake.invalid/sim/vcsim/vim"
)

// Methods are those by which a client disconnects a host. The library leaves the VMs of the host as they are, but vCenter does not
// reach them then.
func (o *Outages) Methods() map[string]core.Override {
	return map[string]core.Override{
		"DisconnectHost_Task": func(_ *simulator.Context, _ *core.Call, body types.AnyType) soap.HasFault {
			this := body.(*types.DisconnectHost_Task).This
			return o.turn(this, "DisconnectHost_Task", types.HostSystemConnectionStateDisconnected)
		},
		"ReconnectHost_Task": func(_ *simulator.Context, _ *core.Call, body types.AnyType) soap.HasFault {
			this := body.(*types.ReconnectHost_Task).This
			return o.turn(this, "ReconnectHost_Task", types.HostSystemConnectionStateConnected)
		},
	}
}

func (o *Outages) turn(this vim.Ref, method string, state types.HostSystemConnectionState) soap.HasFault {
	return o.InTask(this, method, func() (types.AnyType, types.BaseMethodFault) {
		isAway := o.Away(this)
		if isAway == (state != types.HostSystemConnectionStateConnected) {
			return nil, &types.InvalidState{}
		}
		o.LoseHost(this, state)
		return nil, nil
	})
}

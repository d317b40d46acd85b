package properties

import (
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/vim"
)

// Everything that reads a property comes through these methods, the stream too. What is unset, or not to be read while a VM is
// out of reach, is no property of an object in the answer.

// RetrievePropertiesEx is the VIM method.
func (c *collector) RetrievePropertiesEx(ctx *simulator.Context, r *types.RetrievePropertiesEx) soap.HasFault {
	res := c.PropertyCollector.RetrievePropertiesEx(ctx, r)
	if body, ok := res.(*methods.RetrievePropertiesExBody); ok && body.Res != nil && body.Res.Returnval != nil {
		propertiesOf(ctx).correct(ctx, body.Res.Returnval.Objects)
		if len(body.Res.Returnval.Objects) == 0 {
			body.Res.Returnval = nil
		}
	}
	return res
}

// RetrieveProperties is the VIM method.
func (c *collector) RetrieveProperties(ctx *simulator.Context, r *types.RetrieveProperties) soap.HasFault {
	res := c.PropertyCollector.RetrieveProperties(ctx, r)
	if body, ok := res.(*methods.RetrievePropertiesBody); ok && body.Res != nil {
		propertiesOf(ctx).correct(ctx, body.Res.Returnval)
	}
	return res
}

// ContinueRetrievePropertiesEx is the VIM method.
func (c *collector) ContinueRetrievePropertiesEx(ctx *simulator.Context, r *types.ContinueRetrievePropertiesEx) soap.HasFault {
	res := c.PropertyCollector.ContinueRetrievePropertiesEx(ctx, r)
	if body, ok := res.(*methods.ContinueRetrievePropertiesExBody); ok && body.Res != nil {
		propertiesOf(ctx).correct(ctx, body.Res.Returnval.Objects)
	}
	return res
}

func (p *Properties) correct(ctx *simulator.Context, objects []types.ObjectContent) {
	p.showUnreserved(ctx, objects)
	p.outages.LeaveOut(objects)
	leaveOutUnset(objects)
}

func leaveOutUnset(objects []types.ObjectContent) {
	for i := range objects {
		set := []types.DynamicProperty{}
		for _, property := range objects[i].PropSet {
			if !vim.Empty(property.Val) {
				set = append(set, property)
			}
		}
		objects[i].PropSet = set
	}
}

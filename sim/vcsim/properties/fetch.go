package properties

import (
	"reflect"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/core"
	"layercake.invalid/sim/vcsim/vim"
)

// Fetch is the method by which pyVmomi and ovftool read one property. It is in no WSDL, but every vCenter has it.

// neverSet are properties of vCenter that the library's types lack.
var neverSet = map[string]bool{
	"ClusterComputeResource.configManagerEnabled": true,
	"ClusterComputeResource.summaryEx":            true,
}

type fetched struct {
	Res *fetchReturn `xml:"urn:vim25 FetchResponse,omitempty"`
}

type fetchReturn struct {
	Returnval types.AnyType `xml:"returnval,omitempty,typeattr"`
}

// Fault is the interface by which the library looks at any answer.
func (*fetched) Fault() *soap.Fault { return nil }

// fetch answers with the value of a property, or with none where it is unset.
func (p *Properties) fetch(ctx *simulator.Context, _ *core.Call, body types.AnyType) soap.HasFault {
	request := reflect.ValueOf(body).Elem()
	this, name := request.FieldByName("This").Interface().(vim.Ref), request.FieldByName("Prop").String()
	if neverSet[this.Type+"."+name] {
		return &fetched{Res: &fetchReturn{}}
	}
	if this == vim25.ServiceInstance && name == "content" {
		res := p.Invoke(ctx, this, "RetrieveServiceContent", &types.RetrieveServiceContent{This: this})
		if res.Fault() != nil {
			return res
		}
		return &fetched{Res: &fetchReturn{Returnval: res.(*methods.RetrieveServiceContentBody).Res.Returnval}}
	}
	res := p.Invoke(ctx, vim.PropertyCollector, "RetrievePropertiesEx", vim.RetrieveProperty(this, name))
	if res.Fault() != nil {
		return res
	}
	out := &fetchReturn{}
	found := res.(*methods.RetrievePropertiesExBody).Res.Returnval
	if found == nil {
		return &fetched{Res: out}
	}
	for _, object := range found.Objects {
		for _, missing := range object.MissingSet {
			return vim.FaultBody(missing.Fault.LocalizedMessage, missing.Fault.Fault.(types.BaseMethodFault))
		}
		for _, property := range object.PropSet {
			out.Returnval = property.Val
		}
	}
	return &fetched{Res: out}
}

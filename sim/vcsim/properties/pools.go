package properties

import (
	"strings"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/vim"
)

// showUnreserved puts into the answer what pools can still reserve: the library has a number that never changes.
func (p *Properties) showUnreserved(ctx *simulator.Context, objects []types.ObjectContent) {
	for _, object := range objects {
		if object.Obj.Type != "ResourcePool" && object.Obj.Type != "VirtualApp" {
			continue
		}
		for i, property := range object.PropSet {
			if property.Name == "runtime" || strings.HasPrefix(property.Name, "runtime.") {
				object.PropSet[i].Val = p.withUnreserved(ctx, object.Obj, property)
			}
		}
	}
}

func (p *Properties) withUnreserved(ctx *simulator.Context, pool vim.Ref, property types.DynamicProperty) types.AnyType {
	free := p.unreserved(ctx, pool)
	memory, cpu := free.Memory<<20, free.CPU
	switch value := property.Val.(type) {
	case types.ResourcePoolRuntimeInfo:
		value.Memory.UnreservedForVm, value.Memory.UnreservedForPool = memory, memory
		value.Cpu.UnreservedForVm, value.Cpu.UnreservedForPool = cpu, cpu
		return value
	case types.ResourcePoolResourceUsage:
		value.UnreservedForVm, value.UnreservedForPool = cpu, cpu
		if property.Name == "runtime.memory" {
			value.UnreservedForVm, value.UnreservedForPool = memory, memory
		}
		return value
	}
	switch property.Name {
	case "runtime.memory.unreservedForVm", "runtime.memory.unreservedForPool":
		return memory
	case "runtime.cpu.unreservedForVm", "runtime.cpu.unreservedForPool":
		return cpu
	}
	return property.Val
}

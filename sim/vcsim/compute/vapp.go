package compute

import (
	"slices"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/vim"
)

// mergeVApp applies changes of OVF properties to those of a clone's source, which are all additions. What is edited
// or removed must be there.
func mergeVApp(source, wanted types.BaseVmConfigSpec) (types.BaseVmConfigSpec, types.BaseMethodFault) {
	if wanted == nil {
		return source, nil
	}
	merged := types.VmConfigSpec{}
	if source != nil {
		merged = *source.GetVmConfigSpec()
		merged.Property = slices.Clone(merged.Property)
	}
	changes := wanted.GetVmConfigSpec()
	for _, c := range changes.Property {
		at := slices.IndexFunc(merged.Property, func(p types.VAppPropertySpec) bool {
			return c.Info != nil && p.Info.Key == c.Info.Key || c.Info == nil && c.RemoveKey == any(p.Info.Key)
		})
		switch {
		case (c.Operation == types.ArrayUpdateOperationAdd) == (at >= 0):
			return nil, &types.InvalidArgument{InvalidProperty: "spec.config.vAppConfig.property"}
		case c.Operation == types.ArrayUpdateOperationAdd:
			merged.Property = append(merged.Property, c)
		case c.Operation == types.ArrayUpdateOperationEdit:
			if fault := checkProperty(merged.Property[at].Info, c.Info.Value); fault != nil {
				return nil, fault
			}
			merged.Property[at].Info = c.Info
		default:
			merged.Property = slices.Delete(merged.Property, at, at+1)
		}
	}
	merged.Product = append(slices.Clone(merged.Product), changes.Product...)
	if len(changes.OvfEnvironmentTransport) != 0 {
		merged.OvfEnvironmentTransport = changes.OvfEnvironmentTransport
	}
	return &merged, nil
}

// setOvfTransport has the guest read its OVF environment that way, which the library forgets.
func (cp *Compute) setOvfTransport(vm vim.Ref, spec types.BaseVmConfigSpec) {
	if spec == nil || len(spec.GetVmConfigSpec().OvfEnvironmentTransport) == 0 {
		return
	}
	ctx := cp.Fresh()
	changed, ok := cp.VMOf(ctx, vm.Value)
	if !ok {
		return
	}
	ctx.WithLock(changed, func() { changeOvfTransport(ctx, changed, spec.GetVmConfigSpec().OvfEnvironmentTransport) })
}

// changeOvfTransport is called with the VM locked.
func changeOvfTransport(ctx *simulator.Context, vm *simulator.VirtualMachine, transports []string) {
	info := types.VmConfigInfo{}
	if vm.Config.VAppConfig != nil {
		info = *vm.Config.VAppConfig.GetVmConfigInfo()
	}
	info.OvfEnvironmentTransport = transports
	ctx.Update(vm, []types.PropertyChange{vim.Change("config.vAppConfig", &info)})
}

package core

import (
	"reflect"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/vim"
)

// What vCenter has in each of its objects, and the library leaves out or takes over from the ESX host that its objects are
// modelled on. Clients that decode whole objects stumble over an enumeration without a value and over dangling references.

// MakeWhole completes an object that is about to be entered into the inventory.
func MakeWhole(o mo.Reference) {
	switch o := o.(type) {
	case *simulator.VirtualMachine:
		makeVMWhole(&o.VirtualMachine)
	case *mo.VirtualMachine:
		makeVMWhole(o)
	case *mo.HostSnmpSystem:
		vim.SetDefault(&o.Limits.Capability, types.HostSnmpAgentCapabilityCOMPLETE)
	case *simulator.ResourcePool:
		if summary, ok := o.Summary.(*types.ResourcePoolSummary); ok {
			own := *summary
			own.Config.Entity = &o.Self
			o.Summary = &own
		}
		o.Config.Entity = &o.Self
	}
}

func makeVMWhole(vm *mo.VirtualMachine) {
	for _, runtime := range []*types.VirtualMachineRuntimeInfo{&vm.Runtime, &vm.Summary.Runtime} {
		vim.SetDefault(&runtime.FaultToleranceState, types.VirtualMachineFaultToleranceStateNotConfigured)
		vim.SetDefault(&runtime.RecordReplayState, types.VirtualMachineRecordReplayStateInactive)
	}
	vim.SetDefault(&vm.GuestHeartbeatStatus, types.ManagedEntityStatusGray)
}

// MakeHostWhole gives a host a datastore browser, and takes away references to what is not there.
func MakeHostWhole(registry *simulator.Registry, host *simulator.HostSystem) {
	host.Config.Host = host.Self
	host.Config.CacheConfigurationInfo = nil // names a datastore of the model
	browser := &simulator.HostDatastoreBrowser{}
	browser.Datastore = host.Datastore
	host.DatastoreBrowser = registry.Put(browser).Reference()
	dropDangling(registry, reflect.ValueOf(&host.ConfigManager))
	dropDangling(registry, reflect.ValueOf(host.Config))
}

var moRefPointer = reflect.TypeFor[*types.ManagedObjectReference]()

// dropDangling unsets all references below the value that name no object.
func dropDangling(registry *simulator.Registry, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return
		}
		if v.Type() == moRefPointer && v.CanSet() {
			if registry.Get(v.Elem().Interface().(vim.Ref)) == nil {
				v.SetZero()
			}
			return
		}
		dropDangling(registry, v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				dropDangling(registry, v.Field(i))
			}
		}
	case reflect.Slice:
		if v.Type().Elem() == vim.MoRefType && v.CanSet() {
			dropDanglingFrom(registry, v)
			return
		}
		for i := range v.Len() {
			dropDangling(registry, v.Index(i))
		}
	}
}

func dropDanglingFrom(registry *simulator.Registry, v reflect.Value) {
	kept := reflect.MakeSlice(v.Type(), 0, v.Len())
	for i := range v.Len() {
		if registry.Get(v.Index(i).Interface().(vim.Ref)) != nil {
			kept = reflect.Append(kept, v.Index(i))
		}
	}
	v.Set(kept)
}

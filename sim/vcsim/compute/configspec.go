package compute

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/vim"
)

// applied are the members of a VirtualMachineConfigSpec that have an effect, in the library or here. Others are
// refused: a client must not believe that something was done.
var applied = map[string]bool{}

// inherited are those that a clone takes over from its source.
var inherited = []string{
	"AlternateGuestName", "Annotation", "BootOptions", "ChangeTrackingEnabled", "ConsolePreferences", "CpuAffinity",
	"CpuAllocation", "CpuHotAddEnabled", "CpuHotRemoveEnabled", "Firmware", "Flags", "FtEncryptionMode",
	"GuestAutoLockEnabled", "GuestId", "LatencySensitivity", "LocationId", "MemoryAffinity", "MemoryAllocation",
	"MemoryHotAddEnabled", "MemoryMB", "MemoryReservationLockedToMax", "MessageBusTunnelEnabled", "MigrateEncryption",
	"NestedHVEnabled", "NpivOnNonRdmDisks", "NpivTemporaryDisabled", "NpivWorldWideNameType", "NumCPUs",
	"NumCoresPerSocket", "Tools", "Version",
}

func init() {
	for _, name := range append(slices.Clone(inherited),
		"ChangeVersion", "Crypto", "DeviceChange", "ExtraConfig", "InstanceUuid", "ManagedBy", "Name", "RepConfig",
		"TagSpecs", "Uuid", "VAppConfig", "VAppConfigRemoved", "VmProfile") {
		applied[name] = true
	}
}

// checkConfig refuses what would be dropped.
func checkConfig(path string, spec *types.VirtualMachineConfigSpec) types.BaseMethodFault {
	v := reflect.ValueOf(spec).Elem()
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if field.Anonymous || applied[field.Name] || v.Field(i).IsZero() {
			continue
		}
		if field.Name == "Files" && spec.Files.VmPathName != "" {
			continue // where a new VM goes; without effect on one that exists
		}
		return notSupported(path + "." + jsonName(field))
	}
	if !vim.IsName(spec.Name) && spec.Name != "" {
		return &types.InvalidName{Name: spec.Name}
	}
	for _, p := range profilesOf(spec) {
		if p == "" {
			return &types.InvalidArgument{InvalidProperty: path + ".vmProfile"}
		}
	}
	return nil
}

func jsonName(field reflect.StructField) string {
	if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" {
		return name
	}
	return field.Name
}

func notSupported(what string) types.BaseMethodFault {
	fault := &types.NotSupported{}
	fault.FaultMessage = []types.LocalizableMessage{{
		Key: "vcsim.notSupported", Message: fmt.Sprintf("The simulator does not apply %s.", what),
	}}
	return fault
}

// copyFields copies the named members where they are set.
func copyFields(dst, src *types.VirtualMachineConfigSpec, names []string) {
	from, to := reflect.ValueOf(src).Elem(), reflect.ValueOf(dst).Elem()
	for _, name := range names {
		if f := from.FieldByName(name); !f.IsZero() {
			to.FieldByName(name).Set(f)
		}
	}
}

// mergeAllocation keeps what the new allocation leaves out: the library would forget it.
func mergeAllocation(old, now *types.ResourceAllocationInfo) *types.ResourceAllocationInfo {
	if now == nil {
		return old
	}
	merged := types.ResourceAllocationInfo{}
	if old != nil {
		merged = *old
	}
	from, to := reflect.ValueOf(*now), reflect.ValueOf(&merged).Elem()
	for i := range from.NumField() {
		if !from.Field(i).IsZero() {
			to.Field(i).Set(from.Field(i))
		}
	}
	return &merged
}

// mergeOptions applies changes to a list of options: an empty string takes a key away.
func mergeOptions(old, changes []types.BaseOptionValue) []types.BaseOptionValue {
	merged := slices.Clone(old)
	for _, c := range changes {
		option := c.GetOptionValue()
		merged = slices.DeleteFunc(merged, func(o types.BaseOptionValue) bool { return o.GetOptionValue().Key == option.Key })
		if option.Value != "" {
			merged = append(merged, option)
		}
	}
	return merged
}

// withoutVoid drops changes that take away a key which is not there: the library would add it, empty.
func withoutVoid(old, changes []types.BaseOptionValue) []types.BaseOptionValue {
	return slices.DeleteFunc(slices.Clone(changes), func(c types.BaseOptionValue) bool {
		option := c.GetOptionValue()
		return option.Value == "" && !slices.ContainsFunc(old, func(o types.BaseOptionValue) bool {
			return o.GetOptionValue().Key == option.Key
		})
	})
}

// profilesOf are the storage profiles that a spec names for the VM's home.
func profilesOf(spec *types.VirtualMachineConfigSpec) []string { return idsOf(spec.VmProfile) }

// vAppSpec adds the properties and products of a source to a clone.
func vAppSpec(info types.BaseVmConfigInfo) types.BaseVmConfigSpec {
	if info == nil {
		return nil
	}
	add := types.ArrayUpdateSpec{Operation: types.ArrayUpdateOperationAdd}
	spec := &types.VmConfigSpec{OvfEnvironmentTransport: info.GetVmConfigInfo().OvfEnvironmentTransport}
	for _, p := range info.GetVmConfigInfo().Property {
		spec.Property = append(spec.Property, types.VAppPropertySpec{ArrayUpdateSpec: add, Info: &p})
	}
	for _, p := range info.GetVmConfigInfo().Product {
		spec.Product = append(spec.Product, types.VAppProductSpec{ArrayUpdateSpec: add, Info: &p})
	}
	return spec
}

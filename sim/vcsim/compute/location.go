package compute

import (
	"reflect"
	"slices"

	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/vim"
)

// Of the device changes in a clone's location vCenter heeds little: of a network adapter its backing, of a disk its
// storage profile. Its own text says that all else is ignored, so new devices and removals vanish without a word. An edit
// of an adapter that would change more than the backing is refused, as relocations of real vCenters are.

// heeded is what of a location's device changes has an effect.
type heeded struct {
	backings map[int32]types.BaseVirtualDeviceBackingInfo // of adapters, by key
	profiles map[int32][]string                           // of disks, by key
}

// heed reads a clone's location, given the devices of its source.
func heed(devices []types.BaseVirtualDevice, location *types.VirtualMachineRelocateSpec) (heeded, types.BaseMethodFault) {
	h := heeded{backings: map[int32]types.BaseVirtualDeviceBackingInfo{}, profiles: map[int32][]string{}}
	for i, c := range location.DeviceChange {
		change := c.GetVirtualDeviceConfigSpec()
		if change.Operation != types.VirtualDeviceConfigSpecOperationEdit || change.Device == nil {
			continue
		}
		present := deviceByKey(devices, change.Device.GetVirtualDevice().Key)
		switch change.Device.(type) {
		case types.BaseVirtualEthernetCard:
			if present == nil || changesMore(present, change.Device) {
				return h, onlyBacking(int32(i))
			}
			if backing := change.Device.GetVirtualDevice().Backing; backing != nil {
				h.backings[change.Device.GetVirtualDevice().Key] = backing
			}
		case *types.VirtualDisk:
			if present != nil && len(change.Profile) != 0 {
				h.profiles[change.Device.GetVirtualDevice().Key] = idsOf(change.Profile)
			}
		}
	}
	for _, disk := range location.Disk {
		if len(disk.Profile) != 0 {
			h.profiles[disk.DiskId] = idsOf(disk.Profile)
		}
	}
	return h, nil
}

// changesMore tells whether an edit sets anything but the backing to what it is not.
func changesMore(present, edit types.BaseVirtualDevice) bool {
	if reflect.TypeOf(present) != reflect.TypeOf(edit) {
		return true
	}
	was, now := copied(present), copied(present)
	overlay(reflect.ValueOf(now).Elem(), reflect.ValueOf(copied(edit)).Elem())
	was.GetVirtualDevice().Backing, now.GetVirtualDevice().Backing = nil, nil
	return !reflect.DeepEqual(was, now)
}

func onlyBacking(index int32) types.BaseMethodFault {
	fault := &types.InvalidDeviceSpec{DeviceIndex: index}
	fault.Property = "spec.location.deviceChange"
	fault.FaultMessage = []types.LocalizableMessage{{
		Key: "vcsim.onlyBacking", Message: "Nothing but the network backing of a device may be changed by the relocateSpec.",
	}}
	return fault
}

// edits are the changes of a new VM's devices that give its adapters their backings.
func (h heeded) edits(devices []types.BaseVirtualDevice) (edits []types.BaseVirtualDeviceConfigSpec) {
	for _, device := range devices {
		if backing, ok := h.backings[device.GetVirtualDevice().Key]; ok {
			device = copied(device)
			device.GetVirtualDevice().Backing = backing
			edits = append(edits, &types.VirtualDeviceConfigSpec{Operation: types.VirtualDeviceConfigSpecOperationEdit, Device: device})
		}
	}
	return edits
}

// completed gives edits of adapters what they leave out: it stays as it is, and the library would forget it.
func completed(devices []types.BaseVirtualDevice, changes []types.BaseVirtualDeviceConfigSpec) []types.BaseVirtualDeviceConfigSpec {
	changes = slices.Clone(changes)
	for i, c := range changes {
		change := *c.GetVirtualDeviceConfigSpec()
		if _, ok := change.Device.(types.BaseVirtualEthernetCard); !ok || change.Operation != types.VirtualDeviceConfigSpecOperationEdit {
			continue
		}
		present := deviceByKey(devices, change.Device.GetVirtualDevice().Key)
		if present == nil || reflect.TypeOf(present) != reflect.TypeOf(change.Device) {
			continue
		}
		whole := copied(present)
		overlay(reflect.ValueOf(whole).Elem(), reflect.ValueOf(change.Device).Elem())
		change.Device = whole
		changes[i] = &change
	}
	return changes
}

// overlay sets what is set in src, member by member; what it leaves out stays.
func overlay(dst, src reflect.Value) {
	for i := range src.NumField() {
		field := src.Field(i)
		switch {
		case src.Type().Field(i).Anonymous && field.Kind() == reflect.Struct:
			overlay(dst.Field(i), field)
		case !field.IsZero():
			dst.Field(i).Set(field)
		}
	}
}

func copied(device types.BaseVirtualDevice) types.BaseVirtualDevice {
	whole := reflect.New(reflect.TypeOf(device).Elem())
	whole.Elem().Set(reflect.ValueOf(device).Elem())
	return whole.Interface().(types.BaseVirtualDevice)
}

func deviceByKey(devices []types.BaseVirtualDevice, key int32) types.BaseVirtualDevice {
	for _, device := range devices {
		if device.GetVirtualDevice().Key == key {
			return device
		}
	}
	return nil
}

// idsOf are the profiles that a spec names.
func idsOf(specs []types.BaseVirtualMachineProfileSpec) (ids []string) {
	for _, spec := range specs {
		if defined, ok := spec.(*types.VirtualMachineDefinedProfileSpec); ok {
			ids = append(ids, defined.ProfileId)
		}
	}
	return ids
}

// noteProfiles notes the profiles of the disks that changes bring, once the VM has them: a new disk's key is vCenter's.
func (cp *Compute) noteProfiles(vm vim.Ref, home []string, changes []types.BaseVirtualDeviceConfigSpec) {
	disks := map[int32][]string{}
	for _, c := range changes {
		change := c.GetVirtualDeviceConfigSpec()
		disk, ok := change.Device.(*types.VirtualDisk)
		if !ok || len(change.Profile) == 0 {
			continue
		}
		// The library writes the new key into the change itself.
		disks[disk.Key] = idsOf(change.Profile)
	}
	cp.Machines.SetProfiles(vm, home, disks)
}

// ProfileWhole gives the home and all disks of a VM one profile, as a deployment does.
func (cp *Compute) ProfileWhole(vm vim.Ref, id string) {
	disks := map[int32][]string{}
	for _, key := range cp.diskKeys(vm) {
		disks[key] = []string{id}
	}
	cp.Machines.SetProfiles(vm, []string{id}, disks)
}

// DiskProfiles are the profiles of a VM's disks, disk by disk in their order.
func (cp *Compute) DiskProfiles(vm vim.Ref) [][]string {
	known := cp.Machines.ProfilesOf(vm).Disks
	all := [][]string{}
	for _, key := range cp.diskKeys(vm) {
		all = append(all, append([]string{}, known[key]...))
	}
	return all
}

func (cp *Compute) diskKeys(this vim.Ref) (keys []int32) {
	ctx := cp.Fresh()
	if vm, ok := cp.VMOf(ctx, this.Value); ok {
		ctx.WithLock(vm, func() {
			for _, disk := range vim.Disks(vm.Config.Hardware.Device) {
				keys = append(keys, disk.Key)
			}
		})
	}
	return keys
}

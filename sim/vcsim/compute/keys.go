package compute

import "github.com/vmware/govmomi/vim25/types"

// Keys of devices as vCenter gives them. A client finds the first disk of an image by 2000, and the first adapter by 4000.
const (
	firstSCSI    = 1000
	firstDisk    = 2000
	unitsOfSCSI  = 16
	firstAdapter = 4000
)

// number gives new devices the keys that vCenter gives them; the library counts up from 201. The caller holds the lock of the VM
// whose devices these are.
func number(devices []types.BaseVirtualDevice, changes []types.BaseVirtualDeviceConfigSpec) {
	all := append([]types.BaseVirtualDevice{}, devices...)
	given := map[int32]int32{}
	for _, controllers := range []bool{true, false} {
		for _, c := range changes {
			change := c.GetVirtualDeviceConfigSpec()
			if change.Operation != types.VirtualDeviceConfigSpecOperationAdd || change.Device == nil {
				continue
			}
			if _, is := change.Device.(types.BaseVirtualController); is != controllers {
				continue
			}
			device := change.Device.GetVirtualDevice()
			if key, ok := given[device.ControllerKey]; ok {
				device.ControllerKey = key
			}
			if key := keyOf(all, change.Device); device.Key <= 0 && key != 0 && deviceByKey(all, key) == nil {
				if device.Key < 0 {
					given[device.Key] = key
				}
				plugIn(all, device.ControllerKey, device.Key, key)
				device.Key = key
			}
			all = append(all, change.Device)
		}
	}
}

// plugIn has a controller list the new key of a device.
func plugIn(devices []types.BaseVirtualDevice, controller, old, key int32) {
	found, ok := deviceByKey(devices, controller).(types.BaseVirtualController)
	if !ok {
		return
	}
	plugged := found.GetVirtualController().Device
	for i := range plugged {
		if plugged[i] == old {
			plugged[i] = key
		}
	}
}

// keyOf is the key that a new device has by its place, or 0.
func keyOf(devices []types.BaseVirtualDevice, device types.BaseVirtualDevice) int32 {
	switch d := device.(type) {
	case types.BaseVirtualSCSIController:
		return firstSCSI + d.GetVirtualSCSIController().BusNumber
	case types.BaseVirtualEthernetCard:
		key := int32(firstAdapter)
		for deviceByKey(devices, key) != nil {
			key++
		}
		return key
	case *types.VirtualDisk:
		controller, ok := deviceByKey(devices, d.ControllerKey).(types.BaseVirtualSCSIController)
		if ok && d.UnitNumber != nil {
			return firstDisk + unitsOfSCSI*controller.GetVirtualSCSIController().BusNumber + *d.UnitNumber
		}
	}
	return 0
}

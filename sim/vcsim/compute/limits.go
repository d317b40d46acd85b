package compute

import (
	"slices"

	"github.com/google/uuid"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/vim"
)

// What vCenter refuses of a VM's settings, and the library takes.

const (
	memoryStep  = 4        // MiB
	largestDisk = 62 << 40 // bytes
)

// sizes are the settings of a VM as they will be.
type sizes struct {
	cpus, cores    int32
	memory         int64
	cpu, reserved  *types.ResourceAllocationInfo
	lockedToMemory bool
}

// after are the sizes that a spec leaves.
func after(config *types.VirtualMachineConfigInfo, spec *types.VirtualMachineConfigSpec) sizes {
	s := sizes{cores: 1}
	if config != nil {
		s.cpus, s.memory = config.Hardware.NumCPU, int64(config.Hardware.MemoryMB)
		s.cpu, s.reserved = config.CpuAllocation, config.MemoryAllocation
		s.lockedToMemory = isTrue(config.MemoryReservationLockedToMax)
		if config.Hardware.NumCoresPerSocket != nil {
			s.cores = *config.Hardware.NumCoresPerSocket
		}
	}
	if spec == nil {
		return s
	}
	vim.SetIfGiven(&s.cpus, spec.NumCPUs)
	vim.SetIfGiven(&s.memory, spec.MemoryMB)
	if spec.NumCoresPerSocket != nil {
		s.cores = *spec.NumCoresPerSocket
	}
	s.cpu, s.reserved = mergeAllocation(s.cpu, spec.CpuAllocation), mergeAllocation(s.reserved, spec.MemoryAllocation)
	return s
}

func isTrue(b *bool) bool { return b != nil && *b }

// checkSizes refuses sizes that no VM can have. What a spec leaves out stays as it is.
func checkSizes(path string, config *types.VirtualMachineConfigInfo, spec *types.VirtualMachineConfigSpec) types.BaseMethodFault {
	s := after(config, spec)
	invalid := func(property string) types.BaseMethodFault {
		return &types.InvalidArgument{InvalidProperty: path + "." + property}
	}
	switch {
	case spec.MemoryMB != 0 && (spec.MemoryMB < memoryStep || spec.MemoryMB%memoryStep != 0):
		return invalid("memoryMB")
	case spec.NumCPUs < 0:
		return invalid("numCPUs")
	case (spec.NumCPUs != 0 || spec.NumCoresPerSocket != nil) && s.cores > 1 && s.cpus%s.cores != 0:
		return invalid("numCPUs")
	case spec.CpuAllocation != nil && limitedBelow(s.cpu):
		return invalid("cpuAllocation")
	case spec.MemoryAllocation != nil && limitedBelow(s.reserved):
		return invalid("memoryAllocation")
	case spec.Firmware != "" && !slices.Contains([]string{"bios", "efi"}, spec.Firmware):
		return invalid("firmware")
	case spec.Uuid != "" && uuid.Validate(spec.Uuid) != nil:
		return invalid("uuid")
	case spec.InstanceUuid != "" && uuid.Validate(spec.InstanceUuid) != nil:
		return invalid("instanceUuid")
	}
	return checkCapacities(spec.DeviceChange)
}

// limitedBelow tells whether a limit is less than what is reserved.
func limitedBelow(info *types.ResourceAllocationInfo) bool {
	reservation, limit := vim.Allocation(info)
	return limit >= 0 && limit < reservation
}

// checkCapacities refuses disks that are larger than a VMDK can be.
func checkCapacities(changes []types.BaseVirtualDeviceConfigSpec) types.BaseMethodFault {
	for i, c := range changes {
		disk, ok := c.GetVirtualDeviceConfigSpec().Device.(*types.VirtualDisk)
		if ok && capacityOf(disk) > largestDisk {
			return &types.InvalidDeviceSpec{DeviceIndex: int32(i)}
		}
	}
	return nil
}

// checkPowerOn refuses to run a VM that reserves more memory than it has, or has more CPUs than a host has threads.
func checkPowerOn(config *types.VirtualMachineConfigInfo, threads int32) types.BaseMethodFault {
	s := after(config, nil)
	reservation, _ := vim.Allocation(s.reserved)
	switch {
	case reservation > s.memory && !s.lockedToMemory:
		fault := &types.InvalidVmConfig{Property: "memoryAllocation"}
		fault.FaultMessage = []types.LocalizableMessage{{
			Key: "vcsim.reservation", Message: "The memory reservation is larger than the memory of the virtual machine.",
		}}
		return fault
	case s.cpus > threads:
		return &types.NumVirtualCpusExceedsLimit{MaxSupportedVcpus: threads}
	}
	return nil
}

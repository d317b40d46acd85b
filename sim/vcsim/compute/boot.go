package compute

import (
	"fmt"
	"hash/fnv"
	"time"

	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/vim"
)

// BootGuest plays the guest of a VM that was turned on, where no agent does: it reports an address when it is due.
func (cp *Compute) BootGuest(vm vim.Ref) {
	time.AfterFunc(cp.Options.GuestDelay.Long, func() { cp.guestReports(vm) })
}

func (cp *Compute) guestReports(this vim.Ref) {
	ctx := cp.Fresh()
	vm, ok := cp.VMOf(ctx, this.Value)
	if !ok {
		return
	}
	ctx.WithLock(vm, func() {
		if vm.Runtime.PowerState != types.VirtualMachinePowerStatePoweredOn || vm.Config.Template {
			return
		}
		facts := GuestFacts{IP: addressOf(vm.Config.InstanceUuid), Host: vm.Name, Tools: true}
		ctx.Update(vm, facts.Changes(ctx, vm))
	})
}

// addressOf is a private address that a VM has whenever it boots; that two have the same harms nobody.
func addressOf(uuid string) string {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(uuid))
	n := sum.Sum32()
	return fmt.Sprintf("10.%d.%d.%d", byte(n>>16), byte(n>>8), 1+byte(n)%254)
}

package main

import (
	"fmt"
	"hash/fnv"
	"time"

	"github.com/vmware/govmomi/vim25/types"
)

// bootGuest plays the guest of a VM that was turned on, where no agent does: it reports an address when it is due.
func (s *Sim) bootGuest(vm ref) {
	time.AfterFunc(s.options.GuestDelay.long, func() { s.guestReports(vm) })
}

func (s *Sim) guestReports(this ref) {
	ctx := s.fresh()
	vm, ok := s.vmOf(ctx, this.Value)
	if !ok {
		return
	}
	ctx.WithLock(vm, func() {
		if vm.Runtime.PowerState != types.VirtualMachinePowerStatePoweredOn || vm.Config.Template {
			return
		}
		facts := guestFacts{ip: addressOf(vm.Config.InstanceUuid), host: vm.Name, tools: true}
		ctx.Update(vm, facts.changes(ctx, vm))
	})
}

// addressOf is a private address that a VM has whenever it boots; that two have the same harms nobody.
func addressOf(uuid string) string {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(uuid))
	n := sum.Sum32()
	return fmt.Sprintf("10.%d.%d.%d", byte(n>>16), byte(n>>8), 1+byte(n)%254)
}

package inventory

import (
	"strings"
	"sync"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/core"
	"layercake.invalid/sim/vcsim/vim"
)

// claims are names and UUIDs of VMs that are being made: taken, though no VM has them yet.
type claims struct {
	mu    sync.Mutex
	taken map[string]bool
}

// claim takes the key unless it is taken; free is asked under the lock.
func (c *claims) claim(key string, free func() bool) (release func(), ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.taken[key] || !free() {
		return nil, false
	}
	if c.taken == nil {
		c.taken = map[string]bool{}
	}
	c.taken[key] = true
	return func() {
		c.mu.Lock()
		delete(c.taken, key)
		c.mu.Unlock()
	}, true
}

// ClaimName reserves a VM's name in its folder.
func (inv *Inventory) ClaimName(folder vim.Ref, name string) (release func(), fault types.BaseMethodFault) {
	if !vim.IsName(name) {
		return nil, &types.InvalidName{Name: name}
	}
	var holder vim.Ref
	release, ok := inv.claims.claim("name/"+folder.Value+"/"+Escaped(name), func() bool {
		var found bool
		holder, found = inv.ChildNamed(folder, name)
		return !found
	})
	if !ok {
		if holder.Type == "" {
			// It is still being made and has no moref yet.
			holder = vim.Ref{Type: "VirtualMachine", Value: "vm-0"}
		}
		return nil, &types.DuplicateName{Name: name, Object: holder}
	}
	return release, nil
}

// ChildNamed finds the VM or folder of that name in the folder. The caller must hold no VM's lock.
func (inv *Inventory) ChildNamed(folder vim.Ref, name string) (vim.Ref, bool) {
	name = Escaped(name)
	if found := inv.Machines.Find(func(r core.Row) bool { return r.Folder == folder.Value && r.Name == name }); len(found) != 0 {
		return found[0], true
	}
	ctx := inv.Fresh()
	for _, e := range ctx.Map.All("Folder") {
		if is(ctx, e, folder, name) {
			return e.Reference(), true
		}
	}
	return vim.Ref{}, false
}

func is(ctx *simulator.Context, e mo.Entity, parent vim.Ref, name string) (same bool) {
	ctx.WithLock(e, func() {
		p := e.Entity().Parent
		same = p != nil && *p == parent && e.Entity().Name == name
	})
	return same
}

// Escaped is a name as vCenter stores it.
func Escaped(name string) string { return vim.Escaped(name) }

// ClaimInstanceUUID gives the wanted UUID if no other VM has it, else a new one, as vCenter does.
func (inv *Inventory) ClaimInstanceUUID(wanted string, self vim.Ref) (uuid string, release func()) {
	for {
		if wanted == "" {
			wanted = vim.NewUUID()
		}
		release, ok := inv.claims.claim("uuid/"+strings.ToLower(wanted), func() bool {
			return len(inv.Machines.Find(func(r core.Row) bool {
				return r.MoID != self.Value && strings.EqualFold(r.InstanceUUID, wanted)
			})) == 0
		})
		if ok {
			return wanted, release
		}
		wanted = ""
	}
}

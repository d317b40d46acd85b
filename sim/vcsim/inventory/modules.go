package inventory

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/vmware/govmomi/simulator"

	"layercake.invalid/sim/vcsim/core"
	"layercake.invalid/sim/vcsim/vim"
)

// Modules are the cluster modules: sets of VMs that DRS keeps on different hosts. govmomi's library serves them without a
// lock, and its placement ignores them.
type Modules struct {
	mu   sync.Mutex
	byID map[string]*module
}

type module struct {
	cluster string
	members map[string]bool
}

// Create makes a module without members.
func (m *Modules) Create(cluster string) (id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	id = vim.NewUUID()
	m.byID[id] = &module{cluster: cluster, members: map[string]bool{}}
	return id
}

// Clusters returns the cluster of every module, by the module's id.
func (m *Modules) Clusters() map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	clusters := map[string]string{}
	for id, module := range m.byID {
		clusters[id] = module.cluster
	}
	return clusters
}

// Remove deletes a module. It reports whether the module existed.
func (m *Modules) Remove(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.byID[id]
	delete(m.byID, id)
	return ok
}

// Clear removes all modules.
func (m *Modules) Clear() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.byID)
}

// SavedModules are the modules of a backup.
type SavedModules map[string]*module

// Saved copies the modules, for a backup.
func (m *Modules) Saved() SavedModules {
	m.mu.Lock()
	defer m.mu.Unlock()
	return copiedModules(m.byID)
}

// Restore puts the modules back to what was saved.
func (m *Modules) Restore(saved SavedModules) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.byID = copiedModules(saved)
}

func copiedModules(of SavedModules) SavedModules {
	all := SavedModules{}
	for id, m := range of {
		all[id] = &module{m.cluster, maps.Clone(m.members)}
	}
	return all
}

// living are the members that still exist, in order: a destroyed VM leaves its modules.
func (m *module) living(rows map[string]core.Row) []string {
	vms := []string{}
	for id := range m.members {
		if _, ok := rows[id]; ok {
			vms = append(vms, id)
		} else {
			delete(m.members, id)
		}
	}
	slices.Sort(vms)
	return vms
}

// MembersOf are the members of a module that still exist; ok tells whether there is such a module.
func (inv *Inventory) MembersOf(id string) (vms []string, ok bool) {
	rows := inv.rowsByID()
	inv.Modules.mu.Lock()
	defer inv.Modules.mu.Unlock()
	m, ok := inv.Modules.byID[id]
	if !ok {
		return nil, false
	}
	return m.living(rows), true
}

// ChangeModule adds or removes all of the VMs that it can, and tells whether it could for all.
func (inv *Inventory) ChangeModule(id string, vms []string, add bool) (success, ok bool) {
	rows := inv.rowsByID()
	inv.Modules.mu.Lock()
	defer inv.Modules.mu.Unlock()
	m, ok := inv.Modules.byID[id]
	if !ok {
		return false, false
	}
	success = true
	for _, id := range vms {
		fits := m.members[id] != add
		if add {
			pool, ok := inv.Registry.Get(rows[id].Pool).(*simulator.ResourcePool)
			fits = fits && ok && pool.Owner.Value == m.cluster
		}
		if !fits {
			success = false
		} else if add {
			m.members[id] = true
		} else {
			delete(m.members, id)
		}
	}
	return success, true
}

func (inv *Inventory) rowsByID() map[string]core.Row {
	inv.Machines.Refresh()
	rows := map[string]core.Row{}
	inv.Machines.Each(func(r vim.Ref, row core.Row) { rows[r.Value] = row })
	return rows
}

// ModuleSeen is a cluster module as an administrator sees it.
type ModuleSeen struct {
	ID      string   `json:"id"`
	Cluster string   `json:"cluster"`
	Members []string `json:"members"`
}

// ModulesSeen are all modules, in order.
func (inv *Inventory) ModulesSeen() []ModuleSeen {
	rows := inv.rowsByID()
	inv.Modules.mu.Lock()
	defer inv.Modules.mu.Unlock()
	seen := []ModuleSeen{}
	for id, m := range inv.Modules.byID {
		seen = append(seen, ModuleSeen{id, m.cluster, m.living(rows)})
	}
	slices.SortFunc(seen, func(a, b ModuleSeen) int { return strings.Compare(a.ID, b.ID) })
	return seen
}

// avoided are the hosts on which another member of one of the VM's modules runs, or is about to.
func (inv *Inventory) avoided(self vim.Ref) map[vim.Ref]bool {
	inv.Modules.mu.Lock()
	others := map[string]bool{}
	for _, m := range inv.Modules.byID {
		if m.members[self.Value] {
			for id := range m.members {
				others[id] = true
			}
		}
	}
	inv.Modules.mu.Unlock()
	hosts := map[vim.Ref]bool{}
	if len(others) == 0 {
		return hosts
	}
	inv.Machines.Each(func(r vim.Ref, row core.Row) {
		if others[r.Value] && r != self && inv.isOn(r, row) {
			hosts[row.Host] = true
		}
	})
	return hosts
}

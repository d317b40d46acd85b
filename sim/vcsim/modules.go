package main

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/vmware/govmomi/simulator"
)

// modules are the cluster modules: sets of VMs that DRS keeps on different hosts. The library has their routes, without
// a lock, and without a word to whoever chooses a host.
type modules struct {
	mu   sync.Mutex
	byID map[string]*module
}

type module struct {
	cluster string
	members map[string]bool
}

func (m *modules) create(cluster string) (id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	id = newUUID()
	m.byID[id] = &module{cluster: cluster, members: map[string]bool{}}
	return id
}

// remove tells whether there was such a module.
func (m *modules) remove(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.byID[id]
	delete(m.byID, id)
	return ok
}

func (m *modules) clear() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.byID)
}

// saved copies the modules, for a backup.
func (m *modules) saved() map[string]*module {
	m.mu.Lock()
	defer m.mu.Unlock()
	return copiedModules(m.byID)
}

// restore puts the modules back to what was saved.
func (m *modules) restore(saved map[string]*module) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.byID = copiedModules(saved)
}

func copiedModules(of map[string]*module) map[string]*module {
	all := map[string]*module{}
	for id, m := range of {
		all[id] = &module{m.cluster, maps.Clone(m.members)}
	}
	return all
}

// living are the members that still exist, in order: a destroyed VM leaves its modules.
func (m *module) living(rows map[string]row) []string {
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

// membersOf are the members of a module that still exist; ok tells whether there is such a module.
func (s *Sim) membersOf(id string) (vms []string, ok bool) {
	rows := s.rowsByID()
	s.modules.mu.Lock()
	defer s.modules.mu.Unlock()
	m, ok := s.modules.byID[id]
	if !ok {
		return nil, false
	}
	return m.living(rows), true
}

// changeModule adds or removes all of the VMs that it can, and tells whether it could for all.
func (s *Sim) changeModule(id string, vms []string, add bool) (success, ok bool) {
	rows := s.rowsByID()
	s.modules.mu.Lock()
	defer s.modules.mu.Unlock()
	m, ok := s.modules.byID[id]
	if !ok {
		return false, false
	}
	success = true
	for _, id := range vms {
		fits := m.members[id] != add
		if add {
			pool, ok := s.registry.Get(rows[id].pool).(*simulator.ResourcePool)
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

func (s *Sim) rowsByID() map[string]row {
	s.machines.refresh()
	rows := map[string]row{}
	s.machines.each(func(r ref, row row) { rows[r.Value] = row })
	return rows
}

// moduleSeen is a cluster module as an administrator sees it.
type moduleSeen struct {
	ID      string   `json:"id"`
	Cluster string   `json:"cluster"`
	Members []string `json:"members"`
}

func (s *Sim) modulesSeen() []moduleSeen {
	rows := s.rowsByID()
	s.modules.mu.Lock()
	defer s.modules.mu.Unlock()
	seen := []moduleSeen{}
	for id, m := range s.modules.byID {
		seen = append(seen, moduleSeen{id, m.cluster, m.living(rows)})
	}
	slices.SortFunc(seen, func(a, b moduleSeen) int { return strings.Compare(a.ID, b.ID) })
	return seen
}

// avoided are the hosts on which another member of one of the VM's modules runs, or is about to.
func (s *Sim) avoided(self ref) map[ref]bool {
	s.modules.mu.Lock()
	others := map[string]bool{}
	for _, m := range s.modules.byID {
		if m.members[self.Value] {
			for id := range m.members {
				others[id] = true
			}
		}
	}
	s.modules.mu.Unlock()
	hosts := map[ref]bool{}
	if len(others) == 0 {
		return hosts
	}
	s.machines.each(func(r ref, row row) {
		if others[r.Value] && r != self && s.isOn(r, row) {
			hosts[row.host] = true
		}
	})
	return hosts
}

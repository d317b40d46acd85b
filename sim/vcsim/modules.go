package main

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
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

const modulesPath = "/rest/vcenter/cluster/modules"

func (s *Sim) routeModules(mux *http.ServeMux) {
	serve := func(pattern string, f func(*answer, *http.Request)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			s.guarded(w, r, []string{restName(r)}, true, func(out *answer) { f(out, r) })
		})
	}
	serve("GET "+modulesPath, s.listModules)
	serve("POST "+modulesPath, s.createModule)
	serve("DELETE "+modulesPath+"/{id}", s.deleteModule)
	serve("GET "+modulesPath+"/vm/{id}/members", s.listMembers)
	serve("POST "+modulesPath+"/vm/{id}/members", s.changeMembers)
}

func (s *Sim) listModules(out *answer, _ *http.Request) {
	s.modules.mu.Lock()
	defer s.modules.mu.Unlock()
	summaries := []any{}
	for id, m := range s.modules.byID {
		summaries = append(summaries, map[string]string{"module": id, "cluster": m.cluster})
	}
	writeREST(out, http.StatusOK, true, map[string]any{"summaries": summaries})
}

func (s *Sim) createModule(out *answer, r *http.Request) {
	var body struct {
		Spec struct {
			Cluster string `json:"cluster"`
		} `json:"spec"`
	}
	err := json.NewDecoder(r.Body).Decode(&body)
	if _, ok := s.registry.Get(ref{Type: "ClusterComputeResource", Value: body.Spec.Cluster}).(*simulator.ClusterComputeResource); !ok || err != nil {
		restError(out, http.StatusNotFound, "not_found", "no cluster "+body.Spec.Cluster)
		return
	}
	id := newUUID()
	s.modules.mu.Lock()
	defer s.modules.mu.Unlock()
	s.modules.byID[id] = &module{cluster: body.Spec.Cluster, members: map[string]bool{}}
	writeREST(out, http.StatusOK, true, id)
}

func (s *Sim) deleteModule(out *answer, r *http.Request) {
	s.modules.mu.Lock()
	defer s.modules.mu.Unlock()
	if _, ok := s.modules.byID[r.PathValue("id")]; !ok {
		restError(out, http.StatusNotFound, "not_found", "no module "+r.PathValue("id"))
		return
	}
	delete(s.modules.byID, r.PathValue("id"))
}

func (s *Sim) listMembers(out *answer, r *http.Request) {
	rows := s.rowsByID()
	s.modules.mu.Lock()
	defer s.modules.mu.Unlock()
	m, ok := s.modules.byID[r.PathValue("id")]
	if !ok {
		restError(out, http.StatusNotFound, "not_found", "no module "+r.PathValue("id"))
		return
	}
	writeREST(out, http.StatusOK, true, map[string]any{"vms": m.living(rows)})
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

// changeMembers adds or removes all of the VMs that it can; success says whether it could for all.
func (s *Sim) changeMembers(out *answer, r *http.Request) {
	var body struct {
		VMs []string `json:"vms"`
	}
	action := r.URL.Query().Get("action")
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || action != "add" && action != "remove" {
		restError(out, http.StatusBadRequest, "invalid_argument", "vms and ?action=add or remove are needed")
		return
	}
	rows := s.rowsByID()
	s.modules.mu.Lock()
	defer s.modules.mu.Unlock()
	m, ok := s.modules.byID[r.PathValue("id")]
	if !ok {
		restError(out, http.StatusNotFound, "not_found", "no module "+r.PathValue("id"))
		return
	}
	success := true
	for _, id := range body.VMs {
		fits := m.members[id] == (action == "remove")
		if action == "add" {
			pool, ok := s.registry.Get(rows[id].pool).(*simulator.ResourcePool)
			fits = fits && ok && pool.Owner.Value == m.cluster
		}
		if !fits {
			success = false
		} else if action == "add" {
			m.members[id] = true
		} else {
			delete(m.members, id)
		}
	}
	writeREST(out, http.StatusOK, true, map[string]bool{"success": success})
}

func (s *Sim) rowsByID() map[string]row {
	s.machines.refresh()
	s.machines.mu.Lock()
	defer s.machines.mu.Unlock()
	rows := make(map[string]row, len(s.machines.rows))
	for r, row := range s.machines.rows {
		rows[r.Value] = row
	}
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

// controlClearModules removes all modules.
func (s *Sim) controlClearModules(*http.Request) (any, error) {
	s.modules.mu.Lock()
	defer s.modules.mu.Unlock()
	clear(s.modules.byID)
	return nil, nil
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
	s.machines.mu.Lock()
	defer s.machines.mu.Unlock()
	for r, row := range s.machines.rows {
		on := row.PowerState == string(types.VirtualMachinePowerStatePoweredOn) || s.admitted[r]
		if on && others[r.Value] && r != self {
			hosts[row.host] = true
		}
	}
	return hosts
}

// restError is an error in the form of /rest.
func restError(out *answer, status int, kind, text string) {
	writeJSON(out, status, map[string]any{
		"type": "com.vmware.vapi.std.errors." + kind,
		"value": map[string]any{"messages": []any{
			map[string]any{"id": "vcsim." + kind, "default_message": text, "args": []any{}},
		}},
	})
}

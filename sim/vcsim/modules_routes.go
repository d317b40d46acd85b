package main

import (
	"encoding/json"
	"net/http"

	"github.com/vmware/govmomi/simulator"
)

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
	summaries := []any{}
	for _, m := range s.modulesSeen() {
		summaries = append(summaries, map[string]string{"module": m.ID, "cluster": m.Cluster})
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
	writeREST(out, http.StatusOK, true, s.modules.create(body.Spec.Cluster))
}

func (s *Sim) deleteModule(out *answer, r *http.Request) {
	if id := r.PathValue("id"); !s.modules.remove(id) {
		noModule(out, id)
	}
}

func (s *Sim) listMembers(out *answer, r *http.Request) {
	vms, ok := s.membersOf(r.PathValue("id"))
	if !ok {
		noModule(out, r.PathValue("id"))
		return
	}
	writeREST(out, http.StatusOK, true, map[string]any{"vms": vms})
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
	success, ok := s.changeModule(r.PathValue("id"), body.VMs, action == "add")
	if !ok {
		noModule(out, r.PathValue("id"))
		return
	}
	writeREST(out, http.StatusOK, true, map[string]bool{"success": success})
}

func noModule(out *answer, id string) {
	restError(out, http.StatusNotFound, "not_found", "no module "+id)
}

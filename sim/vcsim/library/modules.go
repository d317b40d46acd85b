package library

import (
	"encoding/json"
	"net/http"

	"github.com/vmware/govmomi/simulator"

	"layercake.invalid/sim/vcsim/traffic"
	"layercake.invalid/sim/vcsim/vim"
	"layercake.invalid/sim/vcsim/wire"
)

const modulesPath = "/rest/vcenter/cluster/modules"

func (l *Libraries) routeModules(mux *http.ServeMux) {
	serve := func(pattern string, f func(*traffic.Answer, *http.Request)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			l.wire.Guarded(w, r, []string{wire.RestName(r)}, true, func(out *traffic.Answer) { f(out, r) })
		})
	}
	serve("GET "+modulesPath, l.listModules)
	serve("POST "+modulesPath, l.createModule)
	serve("DELETE "+modulesPath+"/{id}", l.deleteModule)
	serve("GET "+modulesPath+"/vm/{id}/members", l.listMembers)
	serve("POST "+modulesPath+"/vm/{id}/members", l.changeMembers)
}

func (l *Libraries) listModules(out *traffic.Answer, _ *http.Request) {
	summaries := []any{}
	for id, cluster := range l.inventory.Modules.Clusters() {
		summaries = append(summaries, map[string]string{"module": id, "cluster": cluster})
	}
	wire.WriteREST(out, http.StatusOK, true, map[string]any{"summaries": summaries})
}

func (l *Libraries) createModule(out *traffic.Answer, r *http.Request) {
	var body struct {
		Spec struct {
			Cluster string `json:"cluster"`
		} `json:"spec"`
	}
	err := json.NewDecoder(r.Body).Decode(&body)
	if _, ok := l.Registry.Get(vim.Ref{Type: "ClusterComputeResource", Value: body.Spec.Cluster}).(*simulator.ClusterComputeResource); !ok || err != nil {
		wire.RestError(out, http.StatusNotFound, "not_found", "no cluster "+body.Spec.Cluster)
		return
	}
	wire.WriteREST(out, http.StatusOK, true, l.inventory.Modules.Create(body.Spec.Cluster))
}

func (l *Libraries) deleteModule(out *traffic.Answer, r *http.Request) {
	if id := r.PathValue("id"); !l.inventory.Modules.Remove(id) {
		noModule(out, id)
	}
}

func (l *Libraries) listMembers(out *traffic.Answer, r *http.Request) {
	vms, ok := l.inventory.MembersOf(r.PathValue("id"))
	if !ok {
		noModule(out, r.PathValue("id"))
		return
	}
	wire.WriteREST(out, http.StatusOK, true, map[string]any{"vms": vms})
}

// changeMembers adds or removes all of the VMs that it can; success says whether it could for all.
func (l *Libraries) changeMembers(out *traffic.Answer, r *http.Request) {
	var body struct {
		VMs []string `json:"vms"`
	}
	action := r.URL.Query().Get("action")
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || action != "add" && action != "remove" {
		wire.RestError(out, http.StatusBadRequest, "invalid_argument", "vms and ?action=add or remove are needed")
		return
	}
	success, ok := l.inventory.ChangeModule(r.PathValue("id"), body.VMs, action == "add")
	if !ok {
		noModule(out, r.PathValue("id"))
		return
	}
	wire.WriteREST(out, http.StatusOK, true, map[string]bool{"success": success})
}

func noModule(out *traffic.Answer, id string) {
	wire.RestError(out, http.StatusNotFound, "not_found", "no module "+id)
}

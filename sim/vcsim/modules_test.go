package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vapi/cluster"
	"github.com/vmware/govmomi/vapi/rest"
	"github.com/vmware/govmomi/vapi/vcenter"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/vim"
)

func (s *site) automation() *rest.Client {
	s.t.Helper()
	r := rest.NewClient(s.login(false).Client)
	must(s.t, r.Login(s.ctx, url.UserPassword(testCredentials.Username, testCredentials.Password)))
	return r
}

// deploy makes a VM of an item of a library.
func (s *site) deploy(r *rest.Client, item, name string) vim.Ref {
	s.t.Helper()
	vm, err := vcenter.NewManager(r).DeployLibraryItem(s.ctx, item, vcenter.Deploy{
		DeploymentSpec: vcenter.DeploymentSpec{Name: name, AcceptAllEULA: true, DefaultDatastoreID: s.Found.Datastores["ds0"]},
		Target:         vcenter.Target{ResourcePoolID: s.Found.ResourcePool, FolderID: s.Found.Folder},
	})
	must(s.t, err)
	return *vm
}

func TestMembersOfAModuleRunApart(t *testing.T) {
	s := newSite(t)
	c, m := s.login(false), cluster.NewManager(s.automation())
	id, err := m.CreateModule(s.ctx, vim.Ref{Type: "ClusterComputeResource", Value: s.Found.Cluster})
	must(t, err)
	list, err := m.ListModules(s.ctx)
	must(t, err)
	if len(list) != 1 || list[0].Module != id || list[0].Cluster != s.Found.Cluster {
		t.Fatalf("modules: %+v", list)
	}

	var vms []mo.Reference
	for i := range 3 {
		vms = append(vms, s.create(c, fmt.Sprintf("vm-%d", i)))
	}
	ok, err := m.AddModuleMembers(s.ctx, id, vms...)
	must(t, err)
	again, err := m.AddModuleMembers(s.ctx, id, vms[0])
	must(t, err)
	if !ok || again {
		t.Errorf("added %v, added again %v", ok, again)
	}
	hosts := map[vim.Ref]bool{}
	for _, vm := range vms {
		s.done(object.NewVirtualMachine(c.Client, vm.Reference()).PowerOn(s.ctx))
		hosts[*s.props(c, vm.Reference()).Runtime.Host] = true
	}
	if len(hosts) != 3 {
		t.Errorf("on %d hosts", len(hosts))
	}

	s.done(object.NewVirtualMachine(c.Client, vms[0].Reference()).PowerOff(s.ctx))
	s.done(object.NewVirtualMachine(c.Client, vms[0].Reference()).Destroy(s.ctx))
	members, err := m.ListModuleMembers(s.ctx, id)
	must(t, err)
	if len(members) != 2 {
		t.Errorf("members: %v", members)
	}
	must(t, m.DeleteModule(s.ctx, id))
	if err := m.DeleteModule(s.ctx, id); err == nil {
		t.Error("deleted twice")
	}
}

func TestAVMBecomesAnItemOnce(t *testing.T) {
	s := newSite(t)
	c, token := s.login(false), s.token()
	vm := s.create(c, "source")
	post := func(clientToken, name string) (done struct {
		Succeeded bool
		Item      string `json:"ovf_library_item_id"`
		Error     map[string]any
	}) {
		t.Helper()
		body := fmt.Sprintf(`{"source":{"type":"VirtualMachine","id":%q},"target":{"library_id":%q},"create_spec":{"name":%q,"description":"d"}}`,
			vm.Reference().Value, s.Found.Libraries["layercake"], name)
		status, _, text := s.rawWith(http.Header{"Client-Token": {clientToken}}, "POST", "/api/vcenter/ovf/library-item", token, body)
		if status != 200 {
			t.Fatalf("%d %s", status, text)
		}
		must(t, json.Unmarshal([]byte(text), &done))
		return done
	}
	s.asking(token)("POST", "/api/vcenter/ovf/library-item?client_token=t", "{}", 400, nil) // a token among the parameters
	first := post("t", "copy")
	if again := post("t", "copy"); !first.Succeeded || again.Item != first.Item {
		t.Errorf("%+v, then %+v", first, again)
	}
	if taken := post("", "copy"); taken.Succeeded || taken.Error == nil {
		t.Errorf("the name was given twice: %+v", taken)
	}
	deploy := fmt.Sprintf(`{"deployment_spec":{"name":"deployed"},"target":{"resource_pool_id":%q,"folder_id":%q}}`,
		s.Found.ResourcePool, s.Found.Folder)
	s.asking(token)("POST", "/api/vcenter/ovf/library-item/"+first.Item+"?action=deploy", deploy, 200, nil)
}

func TestAConsoleNeedsARunningVM(t *testing.T) {
	for _, vijson := range []bool{false, true} {
		s := newSite(t)
		c := s.login(vijson)
		vm := s.create(c, "vm")
		if _, err := vm.AcquireTicket(s.ctx, string(types.VirtualMachineTicketTypeWebmks)); err == nil {
			t.Error("a ticket to a machine that is off")
		}
		s.done(vm.PowerOn(s.ctx))
		ticket, err := vm.AcquireTicket(s.ctx, string(types.VirtualMachineTicketTypeWebmks))
		must(t, err)
		if ticket.Url != fmt.Sprintf("wss://%s:443/ticket/%s", ticket.Host, ticket.Ticket) {
			t.Errorf("%+v", ticket)
		}
	}
}

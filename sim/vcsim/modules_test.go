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
		task, err := object.NewVirtualMachine(c.Client, vm.Reference()).PowerOn(s.ctx)
		must(t, err)
		must(t, task.Wait(s.ctx))
		hosts[*s.props(c, vm.Reference()).Runtime.Host] = true
	}
	if len(hosts) != 3 {
		t.Errorf("on %d hosts", len(hosts))
	}

	off, err := object.NewVirtualMachine(c.Client, vms[0].Reference()).PowerOff(s.ctx)
	must(t, err)
	must(t, off.Wait(s.ctx))
	gone, err := object.NewVirtualMachine(c.Client, vms[0].Reference()).Destroy(s.ctx)
	must(t, err)
	must(t, gone.Wait(s.ctx))
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
	if status, _, text := s.raw("POST", "/api/vcenter/ovf/library-item?client_token=t", token, "{}"); status != 400 {
		t.Errorf("a token among the parameters: %d %s", status, text)
	}
	first := post("t", "copy")
	if again := post("t", "copy"); !first.Succeeded || again.Item != first.Item {
		t.Errorf("%+v, then %+v", first, again)
	}
	if taken := post("", "copy"); taken.Succeeded || taken.Error == nil {
		t.Errorf("the name was given twice: %+v", taken)
	}
	deploy := fmt.Sprintf(`{"deployment_spec":{"name":"deployed"},"target":{"resource_pool_id":%q,"folder_id":%q}}`,
		s.Found.ResourcePool, s.Found.Folder)
	if status, _, text := s.raw("POST", "/api/vcenter/ovf/library-item/"+first.Item+"?action=deploy", token, deploy); status != 200 {
		t.Errorf("%d %s", status, text)
	}
}

func TestAConsoleNeedsARunningVM(t *testing.T) {
	for _, vijson := range []bool{false, true} {
		s := newSite(t)
		c := s.login(vijson)
		vm := s.create(c, "vm")
		if _, err := vm.AcquireTicket(s.ctx, string(types.VirtualMachineTicketTypeWebmks)); err == nil {
			t.Error("a ticket to a machine that is off")
		}
		task, err := vm.PowerOn(s.ctx)
		must(t, err)
		must(t, task.Wait(s.ctx))
		ticket, err := vm.AcquireTicket(s.ctx, string(types.VirtualMachineTicketTypeWebmks))
		must(t, err)
		if ticket.Url != fmt.Sprintf("wss://%s:443/ticket/%s", ticket.Host, ticket.Ticket) {
			t.Errorf("%+v", ticket)
		}
	}
}

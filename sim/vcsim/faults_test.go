package main

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/core"
	"layercake.invalid/sim/vcsim/faults"
	"layercake.invalid/sim/vcsim/vim"
	"layercake.invalid/sim/vcsim/wire"
)

// order has the control API arrange a fault.
func (s *site) order(r map[string]any) string {
	s.t.Helper()
	var made struct{ ID, Error string }
	if status := s.open("POST", "/v1/faults", r, &made); status != http.StatusOK {
		s.t.Fatalf("fault %v: %d %s", r, status, made.Error)
	}
	return made.ID
}

func (s *site) vmNamed(name string) []vim.Ref {
	return s.Machines.Find(func(r core.Row) bool { return r.Name == name })
}

func TestFaultsOfAClone(t *testing.T) {
	both(t, func(t *testing.T, json bool) {
		s := newSite(t)
		c := s.login(json)
		golden, snapshot := s.golden(c)
		clone := func(name string) error {
			_, err := s.clone(c, golden, name, s.linked(snapshot, func(spec *types.VirtualMachineCloneSpec) { spec.PowerOn = true }))
			return err
		}
		s.order(map[string]any{"method": "CloneVM_Task", "kind": "fault", "fault": "InsufficientResourcesFault", "message": "no room"})
		err := clone("a")
		isFault[*types.InsufficientResourcesFault](t, err)
		must(t, clone("a"))

		s.order(map[string]any{"method": "CloneVM_Task", "kind": "taskFault", "fault": "InsufficientResourcesFault", "object": "b"})
		must(t, clone("c"))
		failsWith[*types.InsufficientResourcesFault](t, clone("b"))
		if len(s.vmNamed("b")) != 0 {
			t.Error("something was done")
		}

		s.order(map[string]any{"method": "CloneVM_Task", "kind": "halfClone", "fault": "TaskInProgress"})
		failsWith[*types.TaskInProgress](t, clone("half"))
		left := s.vmNamed("half")
		if len(left) != 1 || s.props(c, left[0]).Runtime.PowerState != types.VirtualMachinePowerStatePoweredOff {
			t.Errorf("left: %v", left)
		}

		s.order(map[string]any{"method": "CloneVM_Task", "kind": "lostAnswer"})
		if err := clone("lost"); err == nil {
			t.Error("the answer came")
		}
		s.eventually("the lost clone", func() bool { return len(s.vmNamed("lost")) == 1 })

		for _, kind := range []string{"abort", "http503", "html"} {
			s.order(map[string]any{"method": "CloneVM_Task", "kind": kind})
			if err := clone(kind); err == nil {
				t.Errorf("%s: the call succeeded", kind)
			}
			if len(s.vmNamed(kind)) != 0 {
				t.Errorf("%s: something was done", kind)
			}
		}
		s.order(map[string]any{"method": "CloneVM_Task", "kind": "fault", "skip": 1})
		must(t, clone("skipped"))
		if err := clone("hit"); err == nil {
			t.Error("the second call succeeded")
		}
	})
}

// held waits until the only fault holds a call.
func (s *site) held() {
	s.t.Helper()
	s.eventually("the fault holds a call", func() bool {
		var now struct{ Faults []faults.Rule }
		s.open("GET", "/v1/faults", nil, &now)
		return len(now.Faults) == 1 && now.Faults[0].Held == 1
	})
}

func TestAFaultIsForTheObjectsThatItsNameFits(t *testing.T) {
	for _, c := range []struct {
		object, name string
		fits         bool
	}{
		{"p", "p", true}, {"p", "pq", false}, {"p.deleted-*", "p.deleted-group-7", true}, {"p.deleted-*", "p", false}, {"*", "a", true},
	} {
		if (&faults.Rule{Object: c.object}).IsOn(c.name) != c.fits {
			t.Errorf("%s is for %s: %t", c.object, c.name, !c.fits)
		}
	}
}

// A held clone has a task that runs, and its name is taken, until it is let go.
func TestAHeldCloneRunsOn(t *testing.T) {
	s := newSite(t)
	c := s.login(true)
	golden, snapshot := s.golden(c)
	id := s.order(map[string]any{"method": "CloneVM_Task", "kind": "hold", "object": "held"})
	task, err := golden.Clone(s.ctx, s.folder(c), "held", s.linked(snapshot))
	must(t, err)
	s.held()
	if state := s.taskState(c, task); state != types.TaskInfoStateRunning {
		t.Fatalf("state %s", state)
	}
	_, err = s.clone(c, golden, "held", s.linked(snapshot))
	failsWith[*types.DuplicateName](t, err)
	s.answers(http.StatusNoContent, "DELETE", "/v1/faults/"+id, nil, nil)
	must(t, task.Wait(s.ctx))
	if len(s.vmNamed("held")) != 1 {
		t.Error("no VM")
	}
}

func (s *site) taskState(c *govmomi.Client, task *object.Task) types.TaskInfoState {
	s.t.Helper()
	var props mo.Task
	must(s.t, c.RetrieveOne(s.ctx, task.Reference(), []string{"info.state"}, &props))
	return props.Info.State
}

func TestTheControlAPIRefusesNonsense(t *testing.T) {
	s := newSite(t)
	for _, order := range []map[string]any{
		{"kind": "fault"},
		{"method": "X", "kind": "nonsense"},
		{"method": "X", "kind": "fault", "fault": "NoSuchFault"},
		{"method": "X", "kind": "fault", "fault": "VirtualMachineConfigSpec"},
		{"method": "X", "kind": "fault", "typo": 1},
		{"method": "PowerOnVM_Task", "kind": "halfClone"},
	} {
		s.answers(http.StatusBadRequest, "POST", "/v1/faults", order, nil)
	}
	s.answers(http.StatusNotFound, "DELETE", "/v1/faults/f9", nil, nil)
	r, err := http.NewRequestWithContext(s.ctx, http.MethodGet, s.Ready().Control+"/v1/requests", http.NoBody)
	must(t, err)
	res, err := http.DefaultClient.Do(r)
	must(t, err)
	_ = res.Body.Close()
	if res.StatusCode != http.StatusUnauthorized {
		t.Errorf("without the token: %d", res.StatusCode)
	}
}

func TestFaultsOfREST(t *testing.T) {
	s := newSite(t)
	token := s.token()
	const path = "/rest/com/vmware/content/library"
	s.order(map[string]any{"method": "GET /com/vmware/content/library", "kind": "http503"})
	if status, _, body := s.raw("GET", path, token, ""); status != 503 || strings.HasPrefix(body, "{") {
		t.Errorf("%d %s", status, body)
	}
	if status, _, _ := s.raw("GET", path, token, ""); status != 200 {
		t.Errorf("%d", status)
	}
	s.order(map[string]any{"method": "GET /com/vmware/content/library", "kind": "abort"})
	r, err := http.NewRequestWithContext(s.ctx, http.MethodGet, "https://"+s.endpoint().Host+path, http.NoBody)
	must(t, err)
	r.Header.Set(wire.TokenHeader, token)
	if res, err := s.https().Do(r); err == nil {
		_ = res.Body.Close()
		t.Error(errors.New("answered"))
	}
}

func TestTheGuestThroughTheControlAPI(t *testing.T) {
	s := newSite(t)
	c := s.login(false)
	vm := s.create(c, "vm")
	id := vm.Reference().Value
	path := "/v1/vms/" + id
	var table struct {
		Revision int64          `json:"revision"`
		VMs      []core.Machine `json:"vms"`
	}
	boots := func() int {
		s.Machines.Refresh()
		s.open("GET", "/v1/vms?since=0", nil, &table)
		if len(table.VMs) != 1 || table.VMs[0].Name != "vm" {
			t.Fatalf("table %+v", table)
		}
		return table.VMs[0].BootCount
	}
	if boots() != 0 {
		t.Fatal("booted while off")
	}
	s.answers(http.StatusConflict, "PUT", path+"/guest", map[string]any{"ip": "10.0.0.1"}, nil) // the guest is off
	for i, action := range []string{"on", "reset"} {
		s.answers(http.StatusNoContent, "POST", path+"/power", map[string]any{"action": action}, nil)
		if boots() != i+1 {
			t.Errorf("%s: boot count %d", action, boots())
		}
	}
	isFault[*types.ToolsUnavailable](t, vm.RebootGuest(s.ctx))
	s.open("PUT", path+"/guest", map[string]any{"ip": "10.0.0.1", "hostName": "n0", "toolsRunning": true}, nil)
	props := s.props(c, vm.Reference())
	if props.Guest.IpAddress != "10.0.0.1" || props.Guest.HostName != "n0" || len(props.Guest.Net) != 1 || props.Guest.Net[0].IpAddress[0] != "10.0.0.1" {
		t.Errorf("guest %+v", props.Guest)
	}
	must(t, vm.RebootGuest(s.ctx))
	if boots() != 3 || s.props(c, vm.Reference()).Guest.IpAddress != "" {
		t.Errorf("after the reboot: %d, %+v", boots(), s.props(c, vm.Reference()).Guest)
	}

	s.open("PATCH", path+"/guestinfo", map[string]any{"guestinfo.a": "1", "guestinfo.b": "2"}, nil)
	s.open("PATCH", path+"/guestinfo", map[string]any{"guestinfo.a": nil, "guestinfo.b": "---"}, nil)
	var info map[string]string
	s.open("GET", path+"/guestinfo", nil, &info)
	if len(info) != 1 || info["guestinfo.b"] != "---" {
		t.Errorf("guestinfo %v", info)
	}
	s.answers(http.StatusBadRequest, "PATCH", path+"/guestinfo", map[string]any{"other": "1"}, nil)
	s.answers(http.StatusNoContent, "POST", path+"/power", map[string]any{"action": "destroy"}, nil)
	s.answers(http.StatusNotFound, "GET", path+"/guestinfo", nil, nil)
}

func TestRequestsAreCounted(t *testing.T) {
	s := newSite(t)
	s.open("DELETE", "/v1/requests", nil, nil)
	s.create(s.login(true), "vm")
	s.raw("GET", "/rest/com/vmware/content/library", s.token(), "")
	var counted struct {
		Total  int                       `json:"total"`
		ByWire map[string]map[string]int `json:"byWire"`
	}
	s.open("GET", "/v1/requests", nil, &counted)
	if counted.ByWire["vijson"]["CreateVM_Task"] != 1 || counted.ByWire["vijson"]["Login"] != 1 ||
		counted.ByWire["rest"]["GET /com/vmware/content/library"] != 1 || counted.ByWire["rest"]["POST /api/session"] != 1 {
		t.Errorf("%+v", counted)
	}
	sum := 0
	for _, methods := range counted.ByWire {
		for _, n := range methods {
			sum += n
		}
	}
	if sum != counted.Total {
		t.Errorf("%d in all, %d in sum", counted.Total, sum)
	}
}

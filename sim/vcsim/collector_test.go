package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/vim"
)

// stream is a client that watches the VMs of the site's folder, and a list of tasks.
type stream struct {
	*site
	c       *govmomi.Client
	pc      vim.Ref
	tasks   vim.Ref
	version string
	seen    map[vim.Ref]map[string]types.AnyType
	left    []vim.Ref
}

var vmPaths = []string{"name", "runtime.powerState", "guest.ipAddress", "guest.net", "config.instanceUuid",
	"config.extraConfig", "summary.config.numCpu"}

func (s *site) watchVMs(c *govmomi.Client) *stream {
	s.t.Helper()
	w := &stream{site: s, c: c, pc: c.ServiceContent.PropertyCollector, seen: map[vim.Ref]map[string]types.AnyType{}}
	list, err := methods.CreateListView(s.ctx, c, &types.CreateListView{This: *c.ServiceContent.ViewManager})
	must(s.t, err)
	w.tasks = list.Returnval
	view := w.view()
	w.filter(types.PropertyFilterSpec{
		PropSet: []types.PropertySpec{
			{Type: "VirtualMachine", PathSet: vmPaths},
			{Type: "Task", PathSet: []string{"info.state", "info.error", "info.result"}},
		},
		ObjectSet: []types.ObjectSpec{through(view), through(w.tasks)},
	})
	return w
}

func (w *stream) view() vim.Ref {
	w.t.Helper()
	res, err := methods.CreateContainerView(w.ctx, w.c, &types.CreateContainerView{
		This: *w.c.ServiceContent.ViewManager, Container: vim.Ref{Type: "Folder", Value: w.Found.Folder},
		Type: []string{"VirtualMachine"}, Recursive: true,
	})
	must(w.t, err)
	return res.Returnval
}

// list adds tasks to those that are watched.
func (w *stream) list(tasks ...vim.Ref) {
	w.t.Helper()
	_, err := methods.ModifyListView(w.ctx, w.c, &types.ModifyListView{This: w.tasks, Add: tasks})
	must(w.t, err)
}

func through(view vim.Ref) types.ObjectSpec {
	return types.ObjectSpec{Obj: view, Skip: types.NewBool(true), SelectSet: []types.BaseSelectionSpec{
		&types.TraversalSpec{Type: view.Type, Path: "view", Skip: types.NewBool(false)},
	}}
}

func (w *stream) filter(spec types.PropertyFilterSpec) vim.Ref {
	w.t.Helper()
	res, err := methods.CreateFilter(w.ctx, w.c, &types.CreateFilter{This: w.pc, Spec: spec})
	must(w.t, err)
	return res.Returnval
}

func (w *stream) ask(version string, seconds, page int32) (*types.UpdateSet, error) {
	res, err := methods.WaitForUpdatesEx(w.ctx, w.c, &types.WaitForUpdatesEx{
		This: w.pc, Version: version,
		Options: &types.WaitOptions{MaxWaitSeconds: &seconds, MaxObjectUpdates: page},
	})
	if err != nil {
		return nil, err
	}
	return res.Returnval, nil
}

// apply brings an update into the picture of the site, as a client does.
func (w *stream) apply(set *types.UpdateSet) {
	w.t.Helper()
	w.version = set.Version
	for _, f := range set.FilterSet {
		for _, u := range f.ObjectSet {
			_, known := w.seen[u.Obj]
			if known == (u.Kind == types.ObjectUpdateKindEnter) {
				w.t.Fatalf("%s of %s, known: %t", u.Kind, u.Obj, known)
			}
			switch u.Kind {
			case types.ObjectUpdateKindLeave:
				delete(w.seen, u.Obj)
				w.left = append(w.left, u.Obj)
				continue
			case types.ObjectUpdateKindEnter:
				w.seen[u.Obj] = map[string]types.AnyType{}
			}
			for _, c := range u.ChangeSet {
				w.seen[u.Obj][c.Name] = c.Val
			}
		}
	}
}

// until reads the stream until the picture is right.
func (w *stream) until(what string, right func() bool) {
	w.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for first := w.version == ""; first || !right(); first = false {
		if time.Now().After(deadline) {
			w.t.Fatalf("waited in vain for: %s; seen: %v", what, w.seen)
		}
		set, err := w.ask(w.version, 5, 0)
		must(w.t, err)
		if set != nil {
			w.apply(set)
		}
	}
}

func (w *stream) named(name string) map[string]types.AnyType {
	for _, values := range w.seen {
		if values["name"] == name {
			return values
		}
	}
	return nil
}

func isFault[T types.BaseMethodFault](t *testing.T, err error) {
	t.Helper()
	var want T
	if err == nil || !fault.Is(err, want) {
		if soap.IsSoapFault(err) {
			t.Fatalf("got %T, wanted %T", soap.ToSoapFault(err).VimFault(), want)
		}
		t.Fatalf("got %v, wanted %T", err, want)
	}
}

func both(t *testing.T, test func(t *testing.T, json bool)) {
	for name, json := range map[string]bool{"soap": false, "vijson": true} {
		t.Run(name, func(t *testing.T) { test(t, json) })
	}
}

func TestTheStreamTellsOfEverything(t *testing.T) {
	both(t, func(t *testing.T, json bool) {
		s := newSite(t)
		c := s.login(json)
		w := s.watchVMs(c)
		w.until("nothing", func() bool { return len(w.seen) == 0 })
		if set, err := w.ask(w.version, 0, 0); err != nil || set != nil {
			t.Fatalf("at rest: %+v, %v", set, err)
		}
		vm := s.create(c, "a")
		w.until("enter", func() bool { return w.named("a") != nil })
		if got := w.named("a")["runtime.powerState"]; got != types.VirtualMachinePowerStatePoweredOff {
			t.Fatalf("power state %v", got)
		}
		task, err := vm.PowerOn(s.ctx)
		must(t, err)
		w.list(task.Reference())
		w.until("power on and its task", func() bool {
			return w.named("a")["runtime.powerState"] == types.VirtualMachinePowerStatePoweredOn &&
				w.seen[task.Reference()]["info.state"] == types.TaskInfoStateSuccess
		})
		s.answers(204, "PUT", "/v1/vms/"+vm.Reference().Value+"/guest", map[string]any{"ip": "10.1.2.3", "toolsRunning": true}, nil)
		w.until("address", func() bool { return w.named("a")["guest.ipAddress"] == "10.1.2.3" })
		task, err = vm.Destroy(s.ctx)
		must(t, err)
		w.list(task.Reference())
		w.until("a failed task", func() bool {
			switch failure := w.seen[task.Reference()]["info.error"].(type) {
			case types.LocalizedMethodFault:
				_, ok := failure.Fault.(*types.InvalidPowerState)
				return ok
			case types.InvalidPowerState: // over VI/JSON it is the fault itself
				return true
			}
			return false
		})
		s.done(vm.PowerOff(s.ctx))
		// The view of tasks changes while the VM goes: neither may hide the other.
		task, err = vm.Destroy(s.ctx)
		must(t, err)
		w.list(task.Reference())
		w.until("leave", func() bool { return w.named("a") == nil && len(w.left) == 1 })
	})
}

func TestALateFilterIsDeliveredAtOnce(t *testing.T) {
	s := newSite(t)
	c := s.login(false)
	s.create(c, "a")
	w := s.watchVMs(c)
	w.until("a", func() bool { return w.named("a") != nil })
	answers := make(chan *types.UpdateSet)
	go func() {
		set, _ := w.ask(w.version, 20, 0)
		answers <- set
	}()
	late := w.filter(types.PropertyFilterSpec{
		PropSet:   []types.PropertySpec{{Type: "Folder", PathSet: []string{"name"}}},
		ObjectSet: []types.ObjectSpec{{Obj: vim.Ref{Type: "Folder", Value: s.Found.Folder}}},
	})
	set := <-answers
	if set == nil || len(set.FilterSet) != 1 || set.FilterSet[0].Filter != late {
		t.Fatalf("got %+v", set)
	}
}

func TestALostAnswerIsGivenAgain(t *testing.T) {
	s := newSite(t)
	c := s.login(false)
	w := s.watchVMs(c)
	w.until("nothing", func() bool { return true })
	before := w.version
	s.create(c, "a")
	lost, err := w.ask(before, 5, 0)
	must(t, err)
	again, err := w.ask(before, 5, 0)
	must(t, err)
	if again.Version != lost.Version || len(again.FilterSet) != 1 {
		t.Fatalf("lost %+v, again %+v", lost, again)
	}
	w.apply(again)
	s.create(c, "b")
	w.until("b", func() bool { return w.named("b") != nil })
	_, err = w.ask(before, 0, 0)
	isFault[*types.InvalidCollectorVersion](t, err)
	_, err = w.ask("nonsense", 0, 0)
	isFault[*types.InvalidCollectorVersion](t, err)
	// From nothing, everything enters again.
	w.seen, w.version = map[vim.Ref]map[string]types.AnyType{}, ""
	w.until("both", func() bool { return w.named("a") != nil && w.named("b") != nil })
}

func TestPages(t *testing.T) {
	s := newSite(t)
	c := s.login(false)
	for i := range 7 {
		s.create(c, fmt.Sprint("vm", i))
	}
	w := s.watchVMs(c)
	first, err := w.ask("", 1, 3)
	must(t, err)
	w.apply(first)
	second, err := w.ask(w.version, 1, 3)
	must(t, err)
	w.apply(second)
	if _, err := w.ask(first.Version, 1, 3); err == nil {
		t.Fatal("a truncated version served twice")
	}
	third, err := w.ask(w.version, 1, 3)
	must(t, err)
	w.apply(third)
	for i, truncated := range []*bool{first.Truncated, second.Truncated, third.Truncated} {
		if (truncated != nil && *truncated) != (i < 2) {
			t.Errorf("page %d truncated: %v", i, truncated)
		}
	}
	if len(w.seen) != 7 {
		t.Fatalf("saw %d", len(w.seen))
	}
}

func TestEverySessionIsServed(t *testing.T) {
	s := newSite(t)
	a, b := s.watchVMs(s.login(false)), s.watchVMs(s.login(true))
	a.until("nothing", func() bool { return true })
	b.until("nothing", func() bool { return true })
	s.create(s.login(false), "vm")
	a.until("vm", func() bool { return a.named("vm") != nil })
	b.until("vm", func() bool { return b.named("vm") != nil })
}

// A wait must not outlive its session or its client.
func TestTheEndOfAWait(t *testing.T) {
	s := newSite(t)
	wait := func(w *stream) chan error {
		w.until("nothing", func() bool { return true })
		errs := make(chan error, 1)
		go func() {
			_, err := w.ask(w.version, 60, 0)
			errs <- err
		}()
		s.eventually("the wait is there", func() bool { return s.properties.Waits.Load() > 0 })
		return errs
	}
	w := s.watchVMs(s.login(false))
	errs := wait(w)
	must(t, w.c.Logout(s.ctx))
	isFault[*types.RequestCanceled](t, <-errs)

	w = s.watchVMs(s.login(false))
	errs = wait(w)
	s.open("POST", "/v1/sessions/expire", map[string]any{}, nil)
	isFault[*types.RequestCanceled](t, <-errs)
	_, err := w.ask(w.version, 0, 0)
	isFault[*types.NotAuthenticated](t, err)

	w = s.watchVMs(s.login(false))
	errs = wait(w)
	_, err = methods.CancelWaitForUpdates(s.ctx, w.c, &types.CancelWaitForUpdates{This: w.pc})
	must(t, err)
	isFault[*types.RequestCanceled](t, <-errs)

	impatient, leave := context.WithCancel(s.ctx)
	patient := s.ctx
	s.ctx = impatient
	errs = wait(w)
	leave()
	<-errs
	s.ctx = patient
	s.eventually("the wait is gone", func() bool { return s.properties.Waits.Load() == 0 })
}

func (s *site) eventually(what string, right func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !right(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("waited in vain: %s", what)
		}
	}
}

func TestAFilterIsChecked(t *testing.T) {
	s := newSite(t)
	c := s.login(false)
	spec := types.PropertyFilterSpec{PropSet: []types.PropertySpec{{Type: "VirtualMachine", PathSet: []string{"config.instanceUUID"}}}}
	_, err := methods.CreateFilter(s.ctx, c, &types.CreateFilter{This: c.ServiceContent.PropertyCollector, Spec: spec})
	isFault[*types.InvalidProperty](t, err)
}

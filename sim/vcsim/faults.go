package main

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// The kinds of fault that the control API can order.
const (
	kindFault      = "fault"      // the call answers with a fault; nothing is done
	kindTaskFault  = "taskFault"  // the task fails; nothing is done
	kindLostAnswer = "lostAnswer" // everything is done, and the connection cut instead of an answer
	kindHTTP503    = "http503"    // as a proxy answers while vpxd restarts; nothing is done
	kindHTML       = "html"       // a proxy's page of HTML; nothing is done
	kindAbort      = "abort"      // the connection is cut; nothing is done
	kindDelay      = "delay"      // a task takes longer; any other call waits
	kindHold       = "hold"       // a task runs on until the rule is deleted; any other call waits for that
	kindDelayCall  = "delayCall"  // the call waits, even if it starts a task
	kindHoldCall   = "holdCall"   // the call waits until the rule is deleted, even if it starts a task
	kindHalfClone  = "halfClone"  // the clone's task fails after the VM was made, and the VM stays
	kindNoDevices  = "noDevices"  // the clone ignores the changes of devices in its settings
	kindParkCall   = "parkCall"   // the call waits until the rule is deleted, and is then cut off; nothing is done
	kindParkAnswer = "parkAnswer" // everything is done; its answer waits until the rule is deleted, and is then cut off
)

var kinds = []string{
	kindFault, kindTaskFault, kindLostAnswer, kindHTTP503, kindHTML, kindAbort, kindDelay, kindHold, kindDelayCall,
	kindHoldCall, kindHalfClone, kindNoDevices, kindParkCall, kindParkAnswer,
}

// rule says which calls meet which fault.
type rule struct {
	ID      string `json:"id"`
	Method  string `json:"method"`
	Object  string `json:"object,omitempty"` // a name or an id; with * at its end all that begin so
	Kind    string `json:"kind"`
	Fault   string `json:"fault,omitempty"`
	Message string `json:"message,omitempty"`
	DelayMs int    `json:"delayMs,omitempty"`
	Skip    int    `json:"skip"`
	Count   *int   `json:"count"`
	Hits    int    `json:"hits"`
	Held    int    `json:"held"`

	released chan struct{}
}

// isOn says whether the rule is for an object of that name.
func (r *rule) isOn(name string) bool {
	if start, ok := strings.CutSuffix(r.Object, "*"); ok {
		return strings.HasPrefix(name, start)
	}
	return name == r.Object
}

// detail is the fault that the rule names, as a call on that object has it.
func (r *rule) detail(this ref) types.BaseMethodFault {
	name := r.Fault
	if name == "" {
		name = "SystemError"
	}
	t, _ := typeByName(name)
	fault := reflect.New(t).Interface().(types.BaseMethodFault)
	if system, ok := fault.(*types.SystemError); ok {
		system.Reason = r.text()
	}
	if busy, ok := fault.(*types.TaskInProgress); ok {
		busy.Task = ref{Type: "Task", Value: "task-1"}
	}
	if gone, ok := fault.(*types.ManagedObjectNotFound); ok {
		gone.Obj = this
	}
	fault.GetMethodFault().FaultMessage = []types.LocalizableMessage{{Key: "vcsim.injected", Message: r.text()}}
	return fault
}

func (r *rule) text() string {
	if r.Message != "" {
		return r.Message
	}
	return "injected by the simulator's control API"
}

// rules are those in force, in the order in which they were made.
type rules struct {
	mu   sync.Mutex
	last int
	list []*rule
}

func (rs *rules) add(r *rule) error {
	switch {
	case r.Method == "":
		return fmt.Errorf("method is missing; * means any")
	case !slices.Contains(kinds, r.Kind):
		return fmt.Errorf("kind %q: must be one of %s", r.Kind, strings.Join(kinds, ", "))
	case (r.Kind == kindHalfClone || r.Kind == kindNoDevices) && r.Method != "CloneVM_Task":
		return fmt.Errorf("kind %s is for CloneVM_Task only", r.Kind)
	}
	if t, ok := typeByName(r.Fault); r.Fault != "" && (!ok || !reflect.PointerTo(t).Implements(reflect.TypeFor[types.BaseMethodFault]())) {
		return fmt.Errorf("fault %q: no such fault", r.Fault)
	}
	if r.Count == nil {
		one := 1
		r.Count = &one
	}
	r.released = make(chan struct{})
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.last++
	r.ID = fmt.Sprintf("f%d", rs.last)
	r.Hits, r.Held = 0, 0
	rs.list = append(rs.list, r)
	return nil
}

// remove takes the rule away, or all if the id is empty, and lets go what it holds.
func (rs *rules) remove(id string) bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	before := len(rs.list)
	rs.list = slices.DeleteFunc(rs.list, func(r *rule) bool {
		if id != "" && r.ID != id {
			return false
		}
		close(r.released)
		return true
	})
	return id == "" || len(rs.list) < before
}

func (rs *rules) snapshot() []rule {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	list := make([]rule, 0, len(rs.list))
	for _, r := range rs.list {
		list = append(list, *r)
	}
	return list
}

// match finds the rule for a call, which may have several names, and counts its use. A count of 0 has no end.
func (rs *rules) match(methods []string, names func() []string) *rule {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for _, r := range rs.list {
		if r.Method != "*" && !slices.Contains(methods, r.Method) || *r.Count > 0 && r.Hits >= *r.Count {
			continue
		}
		if r.Object != "" && !slices.ContainsFunc(names(), r.isOn) {
			continue
		}
		if r.Skip > 0 {
			r.Skip--
			continue
		}
		r.Hits++
		return r
	}
	return nil
}

// wait holds the caller as long as the rule wants.
func (s *Sim) wait(r *rule) {
	if r.Kind == kindDelay || r.Kind == kindDelayCall {
		select {
		case <-time.After(time.Duration(r.DelayMs) * time.Millisecond):
		case <-r.released:
		case <-s.done:
		}
		return
	}
	s.rules.mu.Lock()
	r.Held++
	s.rules.mu.Unlock()
	select {
	case <-r.released:
	case <-s.done:
	}
	s.rules.mu.Lock()
	r.Held--
	s.rules.mu.Unlock()
}

// namesOf are the names by which a rule may mean the object of a call: its own, its moref's, and what it will be called.
func (s *Sim) namesOf(this ref, body types.AnyType) []string {
	names := []string{this.Value}
	ctx := fresh(s.svc)
	if e, ok := ctx.Map.Get(this).(mo.Entity); ok {
		ctx.WithLock(e, func() { names = append(names, e.Entity().Name) })
	}
	if v := reflect.ValueOf(body); v.Kind() == reflect.Pointer {
		if name := v.Elem().FieldByName("Name"); name.IsValid() && name.Kind() == reflect.String {
			names = append(names, name.String())
		}
	}
	return names
}

// suffer lets a VIM call meet the rule; without an answer from here, the call is carried out.
func (s *Sim) suffer(ctx *simulator.Context, k *call, body types.AnyType) soap.HasFault {
	r := k.rule
	isTask := strings.HasSuffix(k.name, "_Task")
	switch r.Kind {
	case kindFault:
		return faultBody(r.text(), r.detail(k.this))
	case kindTaskFault:
		if isTask {
			return s.inTask(k, func() (types.AnyType, types.BaseMethodFault) { return nil, r.detail(k.this) })
		}
		return faultBody(r.text(), r.detail(k.this))
	case kindHTTP503, kindHTML, kindAbort:
		k.verdict = r.spoil
		return faultBody(r.text(), &types.SystemError{})
	case kindLostAnswer:
		k.verdict = r.spoil
	case kindParkCall:
		s.wait(r)
		k.verdict = r.spoil
		return faultBody(r.text(), &types.SystemError{})
	case kindParkAnswer:
		k.verdict = s.parked(r)
	case kindDelayCall, kindHoldCall:
		s.wait(r)
	case kindDelay, kindHold:
		if k.name == "CloneVM_Task" {
			return nil // it waits itself, once the name is taken
		}
		if !isTask {
			s.wait(r)
			return nil
		}
		session := ctx.Session
		return s.inTask(k, func() (types.AnyType, types.BaseMethodFault) {
			s.wait(r)
			later := fresh(s.svc)
			later.Session = session
			return s.follow(s.carry(later, k, body))
		})
	}
	return nil
}

// inTask answers with a task of ours in place of the method's own.
func (s *Sim) inTask(k *call, do work) soap.HasFault {
	return &taskAnswer{Res: &taskReturn{Returnval: s.runTask(k.this, k.name, do)}}
}

// taskAnswer is the answer of any method that returns a task.
type taskAnswer struct {
	Res    *taskReturn `xml:"urn:vim25 taskReturn,omitempty"`
	Reason *soap.Fault `xml:"http://schemas.xmlsoap.org/soap/envelope/ Fault,omitempty"`
}

type taskReturn struct {
	Returnval ref `xml:"returnval"`
}

// Fault is the interface by which the library looks at any answer.
func (a *taskAnswer) Fault() *soap.Fault { return a.Reason }

// spoil does to an answer what the rule says.
func (r *rule) spoil(out *answer) {
	switch r.Kind {
	case kindHTTP503:
		out.replace(http.StatusServiceUnavailable, "text/plain", "no healthy upstream")
	case kindHTML:
		out.replace(http.StatusBadGateway, "text/html", "<html><body><h1>502 Bad Gateway</h1></body></html>")
	case kindAbort, kindLostAnswer, kindParkCall, kindParkAnswer:
		out.drop = true
	}
}

// parked keeps an answer back as long as the rule wants.
func (s *Sim) parked(r *rule) func(*answer) {
	return func(out *answer) {
		s.wait(r)
		r.spoil(out)
	}
}

// strike lets a REST call meet its rule. It tells whether the call is still to be carried out.
func (s *Sim) strike(out *answer, r *http.Request, names []string) (verdict func(*answer), goOn bool) {
	hit := s.rules.match(names, func() []string { return []string{r.URL.Path} })
	if hit == nil {
		return nil, true
	}
	switch hit.Kind {
	case kindDelay, kindHold, kindDelayCall, kindHoldCall:
		s.wait(hit)
		return nil, true
	case kindLostAnswer:
		return hit.spoil, true
	case kindParkCall:
		s.wait(hit)
		return hit.spoil, false
	case kindParkAnswer:
		return s.parked(hit), true
	case kindFault, kindTaskFault, kindHalfClone:
		out.replace(http.StatusInternalServerError, "application/json",
			`{"type":"com.vmware.vapi.std.errors.internal_server_error","value":{"messages":[]}}`)
		return nil, false
	}
	return hit.spoil, false
}

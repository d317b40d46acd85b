package main

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

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

// wait holds the caller as long as the rule wants, or until all is done.
func (rs *rules) wait(r *rule, done <-chan struct{}) {
	if r.Kind == kindDelay || r.Kind == kindDelayCall {
		select {
		case <-time.After(time.Duration(r.DelayMs) * time.Millisecond):
		case <-r.released:
		case <-done:
		}
		return
	}
	rs.mu.Lock()
	r.Held++
	rs.mu.Unlock()
	select {
	case <-r.released:
	case <-done:
	}
	rs.mu.Lock()
	r.Held--
	rs.mu.Unlock()
}

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

// Package faults has the rules by which calls meet injected faults.
package faults

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/traffic"
	"layercake.invalid/sim/vcsim/vim"
)

// The kinds of fault that the control API can order.
const (
	KindFault      = "fault"      // the call answers with a fault; nothing is done
	KindTaskFault  = "taskFault"  // the task fails; nothing is done
	KindLostAnswer = "lostAnswer" // everything is done, and the connection cut instead of an answer
	KindHTTP503    = "http503"    // as a proxy answers while vpxd restarts; nothing is done
	KindHTML       = "html"       // a proxy's page of HTML; nothing is done
	KindAbort      = "abort"      // the connection is cut; nothing is done
	KindDelay      = "delay"      // a task takes longer; any other call waits
	KindHold       = "hold"       // a task runs on until the rule is deleted; any other call waits for that
	KindDelayCall  = "delayCall"  // the call waits, even if it starts a task
	KindHoldCall   = "holdCall"   // the call waits until the rule is deleted, even if it starts a task
	KindHalfClone  = "halfClone"  // the clone's task fails after the VM was made, and the VM stays
	KindNoDevices  = "noDevices"  // the clone ignores the changes of devices in its settings
	KindParkCall   = "parkCall"   // the call waits until the rule is deleted, and is then cut off; nothing is done
	KindParkAnswer = "parkAnswer" // everything is done; its answer waits until the rule is deleted, and is then cut off
)

var kinds = []string{
	KindFault, KindTaskFault, KindLostAnswer, KindHTTP503, KindHTML, KindAbort, KindDelay, KindHold, KindDelayCall,
	KindHoldCall, KindHalfClone, KindNoDevices, KindParkCall, KindParkAnswer,
}

// Rule says which calls meet which fault.
type Rule struct {
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

// IsOn says whether the rule is for an object of that name.
func (r *Rule) IsOn(name string) bool {
	if start, ok := strings.CutSuffix(r.Object, "*"); ok {
		return strings.HasPrefix(name, start)
	}
	return name == r.Object
}

// Detail is the fault that the rule names, as a call on that object has it.
func (r *Rule) Detail(this vim.Ref) types.BaseMethodFault {
	name := r.Fault
	if name == "" {
		name = "SystemError"
	}
	t, _ := vim.TypeByName(name)
	fault := reflect.New(t).Interface().(types.BaseMethodFault)
	if system, ok := fault.(*types.SystemError); ok {
		system.Reason = r.Text()
	}
	if busy, ok := fault.(*types.TaskInProgress); ok {
		busy.Task = vim.Ref{Type: "Task", Value: "task-1"}
	}
	if gone, ok := fault.(*types.ManagedObjectNotFound); ok {
		gone.Obj = this
	}
	fault.GetMethodFault().FaultMessage = []types.LocalizableMessage{{Key: "vcsim.injected", Message: r.Text()}}
	return fault
}

// Text is the message of the fault.
func (r *Rule) Text() string {
	if r.Message != "" {
		return r.Message
	}
	return "injected by the simulator's control API"
}

// Rules are those in force, in the order in which they were made.
type Rules struct {
	mu   sync.Mutex
	last int
	list []*Rule
}

// Add puts a rule into force and gives it its id, or refuses one that makes no sense.
func (rs *Rules) Add(r *Rule) error {
	switch {
	case r.Method == "":
		return fmt.Errorf("method is missing; * means any")
	case !slices.Contains(kinds, r.Kind):
		return fmt.Errorf("kind %q: must be one of %s", r.Kind, strings.Join(kinds, ", "))
	case (r.Kind == KindHalfClone || r.Kind == KindNoDevices) && r.Method != "CloneVM_Task":
		return fmt.Errorf("kind %s is for CloneVM_Task only", r.Kind)
	}
	if t, ok := vim.TypeByName(r.Fault); r.Fault != "" && (!ok || !reflect.PointerTo(t).Implements(reflect.TypeFor[types.BaseMethodFault]())) {
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

// Remove takes the rule away, or all if the id is empty, and lets go what it holds.
func (rs *Rules) Remove(id string) bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	before := len(rs.list)
	rs.list = slices.DeleteFunc(rs.list, func(r *Rule) bool {
		if id != "" && r.ID != id {
			return false
		}
		close(r.released)
		return true
	})
	return id == "" || len(rs.list) < before
}

// Snapshot copies the rules in force.
func (rs *Rules) Snapshot() []Rule {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	list := make([]Rule, 0, len(rs.list))
	for _, r := range rs.list {
		list = append(list, *r)
	}
	return list
}

// Match finds the rule for a call, which may have several names, and counts its use. A count of 0 has no end.
func (rs *Rules) Match(methods []string, names func() []string) *Rule {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for _, r := range rs.list {
		if r.Method != "*" && !slices.Contains(methods, r.Method) || *r.Count > 0 && r.Hits >= *r.Count {
			continue
		}
		if r.Object != "" && !slices.ContainsFunc(names(), r.IsOn) {
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

// Wait holds the caller as long as the rule wants, or until all is done.
func (rs *Rules) Wait(r *Rule, done <-chan struct{}) {
	if r.Kind == KindDelay || r.Kind == KindDelayCall {
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

// Spoil does to an answer what the rule says.
func (r *Rule) Spoil(out *traffic.Answer) {
	switch r.Kind {
	case KindHTTP503:
		out.Replace(http.StatusServiceUnavailable, "text/plain", "no healthy upstream")
	case KindHTML:
		out.Replace(http.StatusBadGateway, "text/html", "<html><body><h1>502 Bad Gateway</h1></body></html>")
	case KindAbort, KindLostAnswer, KindParkCall, KindParkAnswer:
		out.Drop = true
	}
}

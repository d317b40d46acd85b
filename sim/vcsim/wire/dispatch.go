package wire

import (
	"log"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/core"
	"layercake.invalid/sim/vcsim/faults"
	"layercake.invalid/sim/vcsim/traffic"
	"layercake.invalid/sim/vcsim/vim"
)

// openMethods need no session.
var openMethods = []string{
	"Login", "LoginByToken", "LoginExtensionByCertificate", "CloneSession",
	"RetrieveServiceContent", "RetrieveInternalContent", "PbmRetrieveServiceContent",
}

// Dispatch does what the library's own dispatcher does, with our rules and overrides.
func (s *Server) Dispatch(ctx *simulator.Context, k *core.Call, body types.AnyType) (res soap.HasFault) {
	defer func() {
		if r := recover(); r != nil {
			log.Printf("%s on %s: panic: %v", k.Name, k.This.Value, r)
			res = vim.FaultBody("A general system error occurred", &types.SystemError{Reason: "simulator panic"})
		}
	}()
	inner := k.Wire == traffic.Inner || ctx.Session != nil && ctx.Session.UserName == s.Inner.UserName
	if !inner {
		s.Counters.Add(k.Wire, k.Known())
		if traffic.Changes(k.Known()) {
			s.Journal.Add(traffic.Entry{Wire: k.Wire, Method: k.Known(), Object: traffic.Telling(s.namesOf(k.This, body))})
		}
	}
	if ctx.Session == nil && !slices.Contains(openMethods, k.Name) && !asksOnlySession(body) {
		return vim.NotAuthenticated(k.This)
	}
	if !inner {
		k.Rule = s.Rules.Match([]string{k.Known()}, func() []string { return s.namesOf(k.This, body) })
	}
	if k.Rule != nil {
		if res := s.suffer(ctx, k, body); res != nil {
			return res
		}
	}
	if !inner {
		if fault := s.outages.OutOfReach(k, body); fault != nil {
			if strings.HasSuffix(k.Name, "_Task") {
				return s.FailedTask(k.This, k.Name, fault)
			}
			return vim.FaultBody(vim.FaultText(fault), fault)
		}
		if res := s.privileges.Refuses(k, body); res != nil {
			return res
		}
	}
	res = s.Carry(ctx, k, body)
	if endsSessions[k.Name] {
		s.Reap()
	}
	return res
}

var endsSessions = map[string]bool{"Logout": true, "TerminateSession": true}

// asksOnlySession is true for the property reads that vCenter answers, with nothing, before a login.
func asksOnlySession(body types.AnyType) bool {
	var specs []types.PropertyFilterSpec
	switch r := body.(type) {
	case *types.RetrieveProperties:
		specs = r.SpecSet
	case *types.RetrievePropertiesEx:
		specs = r.SpecSet
	default:
		return false
	}
	for _, spec := range specs {
		for _, o := range spec.ObjectSet {
			if o.Obj.Type != "SessionManager" && o.Obj.Type != "ServiceInstance" {
				return false
			}
		}
	}
	return true
}

// suffer lets a VIM call meet the rule; without an answer from here, the call is carried out.
func (s *Server) suffer(ctx *simulator.Context, k *core.Call, body types.AnyType) soap.HasFault {
	r := k.Rule
	isTask := strings.HasSuffix(k.Name, "_Task")
	switch r.Kind {
	case faults.KindFault:
		return vim.FaultBody(r.Text(), r.Detail(k.This))
	case faults.KindTaskFault:
		if isTask {
			return s.FailedTask(k.This, k.Name, r.Detail(k.This))
		}
		return vim.FaultBody(r.Text(), r.Detail(k.This))
	case faults.KindHTTP503, faults.KindHTML, faults.KindAbort:
		k.Verdict = r.Spoil
		return vim.FaultBody(r.Text(), &types.SystemError{})
	case faults.KindLostAnswer:
		k.Verdict = r.Spoil
	case faults.KindParkCall:
		s.Rules.Wait(r, s.Done)
		k.Verdict = r.Spoil
		return vim.FaultBody(r.Text(), &types.SystemError{})
	case faults.KindParkAnswer:
		k.Verdict = s.parked(r)
	case faults.KindDelayCall, faults.KindHoldCall:
		s.Rules.Wait(r, s.Done)
	case faults.KindDelay, faults.KindHold:
		if k.Name == "CloneVM_Task" {
			return nil // it waits itself, once the name is taken
		}
		if !isTask {
			s.Rules.Wait(r, s.Done)
			return nil
		}
		session := ctx.Session
		return s.InTask(k.This, k.Name, func() (types.AnyType, types.BaseMethodFault) {
			s.Rules.Wait(r, s.Done)
			later := s.Fresh()
			later.Session = session
			return s.Follow(s.Carry(later, k, body))
		})
	}
	return nil
}

// namesOf are the names by which a rule may mean the object of a call: its own, its moref's, and what it will be called.
func (s *Server) namesOf(this vim.Ref, body types.AnyType) []string {
	names := []string{this.Value}
	ctx := s.Fresh()
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

// parked keeps an answer back as long as the rule wants.
func (s *Server) parked(r *faults.Rule) func(*traffic.Answer) {
	return func(out *traffic.Answer) {
		s.Rules.Wait(r, s.Done)
		r.Spoil(out)
	}
}

// Strike lets a REST call meet its rule. It tells whether the call is still to be carried out.
func (s *Server) Strike(out *traffic.Answer, r *http.Request, names []string) (verdict func(*traffic.Answer), goOn bool) {
	hit := s.Rules.Match(names, func() []string { return []string{r.URL.Path} })
	if hit == nil {
		return nil, true
	}
	switch hit.Kind {
	case faults.KindDelay, faults.KindHold, faults.KindDelayCall, faults.KindHoldCall:
		s.Rules.Wait(hit, s.Done)
		return nil, true
	case faults.KindLostAnswer:
		return hit.Spoil, true
	case faults.KindParkCall:
		s.Rules.Wait(hit, s.Done)
		return hit.Spoil, false
	case faults.KindParkAnswer:
		return s.parked(hit), true
	case faults.KindFault, faults.KindTaskFault, faults.KindHalfClone:
		out.Replace(http.StatusInternalServerError, "application/json",
			`{"type":"com.vmware.vapi.std.errors.internal_server_error","value":{"messages":[]}}`)
		return nil, false
	}
	return hit.Spoil, false
}

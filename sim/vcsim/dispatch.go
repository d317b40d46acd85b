package main

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
)

// openMethods need no session.
var openMethods = []string{
	"Login", "LoginByToken", "LoginExtensionByCertificate", "CloneSession",
	"RetrieveServiceContent", "RetrieveInternalContent", "PbmRetrieveServiceContent",
}

// dispatch does what the library's own dispatcher does, with our rules and overrides.
func (s *Sim) dispatch(ctx *simulator.Context, k *call, body types.AnyType) (res soap.HasFault) {
	defer func() {
		if r := recover(); r != nil {
			log.Printf("%s on %s: panic: %v", k.name, k.this.Value, r)
			res = faultBody("A general system error occurred", &types.SystemError{Reason: "simulator panic"})
		}
	}()
	inner := k.wire == wireInner || ctx.Session != nil && ctx.Session.UserName == s.inner.UserName
	if !inner {
		s.counters.add(k.wire, k.known())
		if changes(k.known()) {
			s.journal.add(entry{k.wire, k.known(), telling(s.namesOf(k.this, body))})
		}
	}
	if ctx.Session == nil && !slices.Contains(openMethods, k.name) && !asksOnlySession(body) {
		return notAuthenticated(k.this)
	}
	if !inner {
		k.rule = s.rules.match([]string{k.known()}, func() []string { return s.namesOf(k.this, body) })
	}
	if k.rule != nil {
		if res := s.suffer(ctx, k, body); res != nil {
			return res
		}
	}
	if !inner {
		if fault := s.outOfReach(k, body); fault != nil {
			if strings.HasSuffix(k.name, "_Task") {
				return s.inTask(k, func() (types.AnyType, types.BaseMethodFault) { return nil, fault })
			}
			return faultBody(faultText(fault), fault)
		}
		if res := s.refuses(k, body); res != nil {
			return res
		}
	}
	res = s.carry(ctx, k, body)
	if endsSessions[k.name] {
		s.reap()
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
		s.rules.wait(r, s.done)
		k.verdict = r.spoil
		return faultBody(r.text(), &types.SystemError{})
	case kindParkAnswer:
		k.verdict = s.parked(r)
	case kindDelayCall, kindHoldCall:
		s.rules.wait(r, s.done)
	case kindDelay, kindHold:
		if k.name == "CloneVM_Task" {
			return nil // it waits itself, once the name is taken
		}
		if !isTask {
			s.rules.wait(r, s.done)
			return nil
		}
		session := ctx.Session
		return s.inTask(k, func() (types.AnyType, types.BaseMethodFault) {
			s.rules.wait(r, s.done)
			later := s.fresh()
			later.Session = session
			return s.follow(s.carry(later, k, body))
		})
	}
	return nil
}

// namesOf are the names by which a rule may mean the object of a call: its own, its moref's, and what it will be called.
func (s *Sim) namesOf(this ref, body types.AnyType) []string {
	names := []string{this.Value}
	ctx := s.fresh()
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
func (s *Sim) parked(r *rule) func(*answer) {
	return func(out *answer) {
		s.rules.wait(r, s.done)
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
		s.rules.wait(hit, s.done)
		return nil, true
	case kindLostAnswer:
		return hit.spoil, true
	case kindParkCall:
		s.rules.wait(hit, s.done)
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

package main

import (
	"context"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// call is one VIM method call on its way through the simulator.
//
// The library's Context hides its HTTP request, and its dispatcher is closed. Both open by one detour: the session
// cookie that the library sees is the number of a call, and every call is dispatched to the dispatcher, which dispatches on.
type call struct {
	wire    string
	token   string // the session's, as the client sent it
	request *http.Request
	this    types.ManagedObjectReference
	name    string
	alias   string        // what it is counted and matched as, if not its name
	body    types.AnyType // decoded from JSON; nil when the library decodes XML
	result  soap.HasFault // for JSON, which encodes it itself
	rule    *rule         // the fault that it meets
	verdict func(*answer) // what becomes of the answer instead of being sent
}

// known is the name by which the control API knows the call.
func (k *call) known() string {
	if k.alias != "" {
		return k.alias
	}
	return k.name
}

// calls finds the call that a library Context stands for.
type calls struct {
	last    atomic.Int64
	byID    sync.Map // string → *call
	byOwner sync.Map // *simulator.Context → *call
}

func (c *calls) add(k *call) (id string, done func()) {
	id = strconv.FormatInt(c.last.Add(1), 10)
	c.byID.Store(id, k)
	return id, func() { c.byID.Delete(id) }
}

// claim ties the Context to the call whose number is in its cookie, and tells the session's token.
func (c *calls) claim(ctx *simulator.Context) string {
	k, ok := c.byID.Load(simulator.HTTPCookie(ctx))
	if !ok {
		return ""
	}
	c.byOwner.Store(ctx, k)
	return k.(*call).token
}

func (c *calls) of(ctx *simulator.Context) *call {
	if k, ok := c.byOwner.Load(ctx); ok {
		return k.(*call)
	}
	return nil
}

// dispatcher is the object that every call is sent to. It locks nothing: what it dispatches to is locked as usual.
type dispatcher struct {
	mo.ExtensibleManagedObject // the library expects one in every object it walks over
	sim                        *Sim
}

// Lock and Unlock opt out of the library's lock per object.
func (d *dispatcher) Lock() {}

// Unlock see Lock.
func (d *dispatcher) Unlock() {}

var dispatcherRef = ref{Type: "LayercakeDispatcher", Value: "dispatcher"}

// callContext ends when the client of the call goes away.
func (s *Sim) callContext(ctx *simulator.Context) context.Context {
	if k := s.calls.of(ctx); k != nil {
		return k.request.Context()
	}
	return context.Background()
}

// connect puts the dispatcher in front of every object.
func (s *Sim) connect() {
	d := &dispatcher{sim: s}
	d.Self = dispatcherRef
	s.registry.Put(d)
	s.registry.Cookie = s.calls.claim
	s.registry.Handler = func(ctx *simulator.Context, m *simulator.Method) (mo.Reference, types.BaseMethodFault) {
		k := s.calls.of(ctx)
		if k == nil {
			return nil, nil
		}
		if k.name == "" {
			k.name, k.this = m.Name, m.This
		}
		if k.body != nil {
			m.Body = k.body
		}
		// The library lets a method named List through without a session; whether one is needed, dispatch decides.
		m.Name, m.This = "List", d.Self
		return d, nil
	}
}

// List receives every call. Its name is forced by connect.
func (d *dispatcher) List(ctx *simulator.Context, body types.AnyType) soap.HasFault {
	k := d.sim.calls.of(ctx)
	defer d.sim.calls.byOwner.Delete(ctx)
	ctx.Caller = &k.this
	k.result = d.sim.onCall(ctx, k, body)
	if k.wire == wireJSON {
		// Spares the library an XML answer that nobody reads.
		return &methods.SetLocaleBody{Res: &types.SetLocaleResponse{}}
	}
	return k.result
}

// override stands in for a method of the library's.
type override func(ctx *simulator.Context, k *call, body types.AnyType) soap.HasFault

// carry carries a call out.
func (s *Sim) carry(ctx *simulator.Context, k *call, body types.AnyType) soap.HasFault {
	if o, ok := s.overrides[k.name]; ok {
		return o(ctx, k, body)
	}
	if ofPolicies(k.this) {
		return s.ofAnother(ctx, k, body)
	}
	return s.invoke(ctx, k.this, k.name, body)
}

// invoke calls the method on the object, holding the object's lock as the library does.
func (s *Sim) invoke(ctx *simulator.Context, this types.ManagedObjectReference, name string, body types.AnyType) (res soap.HasFault) {
	target := s.target(ctx, this)
	if target == nil {
		return faultBody("The object has already been deleted or has not been completely created",
			&types.ManagedObjectNotFound{Obj: this})
	}
	method := reflect.ValueOf(target).MethodByName(goName(name))
	if !method.IsValid() || method.Type().NumOut() != 1 {
		return faultBody("The method is not implemented", &types.MethodNotFound{Receiver: this, Method: name})
	}
	if e, ok := target.(mo.Entity); ok && slices.Contains(e.Entity().DisabledMethod, name) {
		return faultBody("The method is disabled", &types.MethodDisabled{})
	}
	args := []reflect.Value{reflect.ValueOf(body)}
	if method.Type().NumIn() == 2 {
		args = append([]reflect.Value{reflect.ValueOf(ctx)}, args...)
	}
	ctx.Map.WithLock(ctx, target, func() {
		res = method.Call(args)[0].Interface().(soap.HasFault)
	})
	if _, ok := target.(mo.Entity); ok {
		s.hub.touch(this)
	}
	return res
}

// target is the object of a call. A session makes its own collector when it is first asked for it, and must not be
// asked twice at once.
func (s *Sim) target(ctx *simulator.Context, this ref) mo.Reference {
	if ctx.Session == nil {
		return ctx.Map.Get(this)
	}
	if this.Type == "PropertyCollector" {
		s.first.Lock()
		defer s.first.Unlock()
	}
	return ctx.Session.Get(this)
}

// goName is the Go method that serves a VIM method: CloneVM_Task is CloneVMTask.
func goName(name string) string {
	name = strings.ToUpper(name[:1]) + name[1:]
	if base, ok := strings.CutSuffix(name, "_Task"); ok {
		return base + "Task"
	}
	return name
}

package core

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

	"layercake.invalid/sim/vcsim/faults"
	"layercake.invalid/sim/vcsim/traffic"
	"layercake.invalid/sim/vcsim/vim"
)

// Call is one VIM method call on its way through the simulator.
//
// The library's Context hides its HTTP request, and its dispatcher is closed. Both open by one detour: the session
// cookie that the library sees is the number of a call, and every call is dispatched to the dispatcher, which dispatches on.
type Call struct {
	Wire    string
	Token   string // the session's, as the client sent it
	Request *http.Request
	This    types.ManagedObjectReference
	Name    string
	Alias   string                // what it is counted and matched as, if not its name
	Body    types.AnyType         // decoded from JSON; nil when the library decodes XML
	Result  soap.HasFault         // for JSON, which encodes it itself
	Rule    *faults.Rule          // the fault that it meets
	Verdict func(*traffic.Answer) // what becomes of the answer instead of being sent
}

// Known is the name by which the control API knows the call.
func (k *Call) Known() string {
	if k.Alias != "" {
		return k.Alias
	}
	return k.Name
}

// calls finds the call that a library Context stands for.
type calls struct {
	last    atomic.Int64
	byID    sync.Map // string → *call
	byOwner sync.Map // *simulator.Context → *call
}

func (c *calls) add(k *Call) (id string, done func()) {
	id = strconv.FormatInt(c.last.Add(1), 10)
	c.byID.Store(id, k)
	return id, func() { c.byID.Delete(id) }
}

// AddCall gives a call the number by which the library carries it along, until it is done.
func (vc *VCenter) AddCall(k *Call) (id string, done func()) { return vc.calls.add(k) }

// claim ties the Context to the call whose number is in its cookie, and tells the session's token.
func (c *calls) claim(ctx *simulator.Context) string {
	k, ok := c.byID.Load(simulator.HTTPCookie(ctx))
	if !ok {
		return ""
	}
	c.byOwner.Store(ctx, k)
	return k.(*Call).Token
}

func (c *calls) of(ctx *simulator.Context) *Call {
	if k, ok := c.byOwner.Load(ctx); ok {
		return k.(*Call)
	}
	return nil
}

// dispatcher is the object that every call is sent to. It locks nothing: what it dispatches to is locked as usual.
type dispatcher struct {
	mo.ExtensibleManagedObject // the library expects one in every object it walks over
	vc                         *VCenter
}

// Lock and Unlock opt out of the library's lock per object.
func (d *dispatcher) Lock() {}

// Unlock see Lock.
func (d *dispatcher) Unlock() {}

var dispatcherRef = vim.Ref{Type: "LayercakeDispatcher", Value: "dispatcher"}

// CallContext ends when the client of the call goes away.
func (vc *VCenter) CallContext(ctx *simulator.Context) context.Context {
	if k := vc.calls.of(ctx); k != nil {
		return k.Request.Context()
	}
	return context.Background()
}

// connect puts the dispatcher in front of every object.
func (vc *VCenter) connect() {
	d := &dispatcher{vc: vc}
	d.Self = dispatcherRef
	vc.Registry.Put(d)
	vc.Registry.Cookie = vc.calls.claim
	vc.Registry.Handler = func(ctx *simulator.Context, m *simulator.Method) (mo.Reference, types.BaseMethodFault) {
		k := vc.calls.of(ctx)
		if k == nil {
			return nil, nil
		}
		if k.Name == "" {
			k.Name, k.This = m.Name, m.This
		}
		if k.Body != nil {
			m.Body = k.Body
		}
		// The library lets a method named List through without a session; whether one is needed, dispatch decides.
		m.Name, m.This = "List", d.Self
		return d, nil
	}
}

// List receives every call. Its name is forced by connect.
func (d *dispatcher) List(ctx *simulator.Context, body types.AnyType) soap.HasFault {
	k := d.vc.calls.of(ctx)
	defer d.vc.calls.byOwner.Delete(ctx)
	ctx.Caller = &k.This
	k.Result = d.vc.OnCall(ctx, k, body)
	if k.Wire == traffic.VIJSON {
		// Spares the library an XML answer that nobody reads.
		return &methods.SetLocaleBody{Res: &types.SetLocaleResponse{}}
	}
	return k.Result
}

// Override stands in for a method of the library's.
type Override func(ctx *simulator.Context, k *Call, body types.AnyType) soap.HasFault

// Carry carries a call out.
func (vc *VCenter) Carry(ctx *simulator.Context, k *Call, body types.AnyType) soap.HasFault {
	if o, ok := vc.overrides[k.Name]; ok {
		return o(ctx, k, body)
	}
	if vim.OfPolicies(k.This) {
		return vc.OfAnother(ctx, k, body)
	}
	return vc.Invoke(ctx, k.This, k.Name, body)
}

// Invoke calls the method on the object, holding the object's lock as the library does.
func (vc *VCenter) Invoke(ctx *simulator.Context, this types.ManagedObjectReference, name string, body types.AnyType) (res soap.HasFault) {
	target := vc.target(ctx, this)
	if target == nil {
		return vim.Gone(this)
	}
	method := reflect.ValueOf(target).MethodByName(goName(name))
	if !method.IsValid() || method.Type().NumOut() != 1 {
		return vim.FaultBody("The method is not implemented", &types.MethodNotFound{Receiver: this, Method: name})
	}
	if e, ok := target.(mo.Entity); ok && slices.Contains(e.Entity().DisabledMethod, name) {
		return vim.FaultBody("The method is disabled", &types.MethodDisabled{})
	}
	args := []reflect.Value{reflect.ValueOf(body)}
	if method.Type().NumIn() == 2 {
		args = append([]reflect.Value{reflect.ValueOf(ctx)}, args...)
	}
	ctx.Map.WithLock(ctx, target, func() {
		res = method.Call(args)[0].Interface().(soap.HasFault)
	})
	if _, ok := target.(mo.Entity); ok {
		vc.Hub.Touch(this)
	}
	vc.nameTask(ctx, res, name)
	return res
}

// target is the object of a call. A session makes its own collector when it is first asked for it, and must not be
// asked twice at once.
func (vc *VCenter) target(ctx *simulator.Context, this vim.Ref) mo.Reference {
	if ctx.Session == nil {
		return ctx.Map.Get(this)
	}
	if this.Type == "PropertyCollector" {
		vc.first.Lock()
		defer vc.first.Unlock()
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

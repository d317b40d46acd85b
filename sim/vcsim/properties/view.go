// Package properties serves clients that read and watch objects: collectors, filters and views.
package properties

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/core"
	"layercake.invalid/sim/vcsim/outage"
	"layercake.invalid/sim/vcsim/vim"
)

// containerView knows its members by looking at changed objects only. The library's own walks the whole inventory
// whenever an object is made, under locks that it shares with the collector.
type containerView struct {
	mo.ContainerView
	properties *Properties
	feed       *core.Feed

	mu         sync.Mutex
	members    map[vim.Ref]bool
	sorted     []vim.Ref // the members, until they change
	generation int
}

// Lock and Unlock opt out of the library's lock per object.
func (v *containerView) Lock() {}

// Unlock see Lock.
func (v *containerView) Unlock() {}

// Get gives the library the view as a client sees it.
func (v *containerView) Get() mo.Reference {
	seen := v.ContainerView
	seen.View, _ = v.current()
	return &seen
}

// Properties are collectors and views, by which clients read and watch objects.
type Properties struct {
	*core.VCenter
	outages *outage.Outages
	// unreserved is what a resource pool can still reserve.
	unreserved func(*simulator.Context, vim.Ref) core.Demand

	Waits atomic.Int64 // in progress
}

// New gives the properties of a vCenter's objects.
func New(vc *core.VCenter, o *outage.Outages, unreserved func(*simulator.Context, vim.Ref) core.Demand) *Properties {
	return &Properties{VCenter: vc, outages: o, unreserved: unreserved}
}

// Methods are those that read properties.
func (p *Properties) Methods() map[string]core.Override {
	return map[string]core.Override{"Fetch": p.fetch, "CreateContainerView": p.createContainerView}
}

// Connect puts the collector into the registry, in place of the library's.
func (p *Properties) Connect() {
	ours := &collector{}
	ours.Self = p.Registry.Get(vim25.ServiceInstance).(*simulator.ServiceInstance).Content.PropertyCollector
	p.Registry.Put(ours)
	p.Registry.Put(newAnchor(p))
}

// createContainerView stands in for the library's method.
func (p *Properties) createContainerView(ctx *simulator.Context, _ *core.Call, body types.AnyType) soap.HasFault {
	req := body.(*types.CreateContainerView)
	if ctx.Map.Get(req.Container) == nil {
		return vim.FaultBody("The container does not exist", &types.ManagedObjectNotFound{Obj: req.Container})
	}
	if !slices.ContainsFunc([]string{"Folder", "Datacenter", "ComputeResource", "ResourcePool", "HostSystem"},
		func(base string) bool { return vim.IsA(req.Container.Type, base) }) {
		return vim.FaultBody("The object is no container", &types.InvalidArgument{InvalidProperty: "container"})
	}
	for _, kind := range req.Type {
		if t, ok := vim.ManagedTypes[kind]; !ok || !vim.IsA(t.Name(), "ManagedEntity") {
			return vim.FaultBody("The type is no managed entity", &types.InvalidArgument{InvalidProperty: "type"})
		}
	}
	v := &containerView{properties: p, feed: p.Hub.Subscribe(), members: map[vim.Ref]bool{}}
	v.Container, v.Type, v.Recursive = req.Container, req.Type, req.Recursive
	v.Self.Type = "ContainerView"
	for _, e := range ctx.Map.All("") {
		v.feed.Add(e.Reference())
	}
	ctx.Session.Put(v)
	p.Watch(ctx.Session, v.Self, v.close)
	return &methods.CreateContainerViewBody{Res: &types.CreateContainerViewResponse{Returnval: v.Self}}
}

func (v *containerView) close() { v.properties.Hub.Unsubscribe(v.feed) }

// DestroyView is the VIM method.
func (v *containerView) DestroyView(ctx *simulator.Context, req *types.DestroyView) soap.HasFault {
	v.close()
	v.properties.Unwatch(ctx.Session, v.Self)
	ctx.Session.Remove(ctx, req.This)
	return &methods.DestroyViewBody{Res: &types.DestroyViewResponse{}}
}

// current gives the members, not to be written to, and a number that differs when they do.
func (v *containerView) current() ([]vim.Ref, int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	before := v.generation
	for r, gone := range v.feed.Take() {
		switch inside := !gone && v.includes(r); {
		case inside == v.members[r]:
		case inside:
			v.members[r] = true
			v.generation++
		default:
			delete(v.members, r)
			v.generation++
		}
	}
	if v.generation != before {
		v.sorted = slices.SortedFunc(maps.Keys(v.members), vim.CompareRefs)
	}
	return v.sorted, v.generation
}

func (v *containerView) includes(r vim.Ref) bool {
	wanted := len(v.Type) == 0 || slices.ContainsFunc(v.Type, func(kind string) bool { return vim.IsA(r.Type, kind) })
	if !wanted || r == v.Container {
		return false
	}
	ctx := v.properties.Fresh()
	if _, ok := ctx.Map.Get(r).(mo.Entity); !ok {
		return false
	}
	for _, parent := range parents(ctx, r) {
		if parent == v.Container || v.Recursive && v.above(ctx, parent) {
			return true
		}
	}
	return false
}

// above tells whether the container is an ancestor.
func (v *containerView) above(ctx *simulator.Context, r vim.Ref) bool {
	for _, parent := range parents(ctx, r) {
		if parent == v.Container || v.above(ctx, parent) {
			return true
		}
	}
	return false
}

// parents are the objects that hold the entity: its parent, and for a VM its pool and its host.
func parents(ctx *simulator.Context, r vim.Ref) (found []vim.Ref) {
	e, ok := ctx.Map.Get(r).(mo.Entity)
	if !ok {
		return nil
	}
	add := func(p *vim.Ref) {
		if p != nil {
			found = append(found, *p)
		}
	}
	ctx.WithLock(e, func() {
		add(e.Entity().Parent)
		if vm, ok := e.(*simulator.VirtualMachine); ok {
			add(vm.ResourcePool)
			add(vm.Runtime.Host)
		}
	})
	return found
}

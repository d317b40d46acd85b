package main

import (
	"maps"
	"slices"
	"sync"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// containerView knows its members by looking at changed objects only. The library's own walks the whole inventory
// whenever an object is made, under locks that it shares with the collector.
type containerView struct {
	mo.ContainerView
	sim  *Sim
	feed *feed

	mu         sync.Mutex
	members    map[ref]bool
	sorted     []ref // the members, until they change
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

// propertiesMethods are those that read properties. The library's own collector takes the place of ours if it is asked for.
func (s *Sim) propertiesMethods() map[string]override {
	methods := map[string]override{"Fetch": s.fetch}
	if s.options.StockCollector {
		return methods
	}
	ours := &collector{}
	ours.Self = s.registry.Get(vim25.ServiceInstance).(*simulator.ServiceInstance).Content.PropertyCollector
	s.registry.Put(ours)
	s.registry.Put(newAnchor(s))
	methods["CreateContainerView"] = s.createContainerView
	return methods
}

// createContainerView stands in for the library's method.
func (s *Sim) createContainerView(ctx *simulator.Context, _ *call, body types.AnyType) soap.HasFault {
	req := body.(*types.CreateContainerView)
	if ctx.Map.Get(req.Container) == nil {
		return faultBody("The container does not exist", &types.ManagedObjectNotFound{Obj: req.Container})
	}
	if !slices.ContainsFunc([]string{"Folder", "Datacenter", "ComputeResource", "ResourcePool", "HostSystem"},
		func(base string) bool { return isA(req.Container.Type, base) }) {
		return faultBody("The object is no container", &types.InvalidArgument{InvalidProperty: "container"})
	}
	for _, kind := range req.Type {
		if t, ok := managedTypes[kind]; !ok || !isA(t.Name(), "ManagedEntity") {
			return faultBody("The type is no managed entity", &types.InvalidArgument{InvalidProperty: "type"})
		}
	}
	v := &containerView{sim: s, feed: s.hub.subscribe(), members: map[ref]bool{}}
	v.Container, v.Type, v.Recursive = req.Container, req.Type, req.Recursive
	v.Self.Type = "ContainerView"
	for _, e := range ctx.Map.All("") {
		v.feed.add(e.Reference())
	}
	ctx.Session.Put(v)
	s.watch(ctx.Session, v.Self, v.close)
	return &methods.CreateContainerViewBody{Res: &types.CreateContainerViewResponse{Returnval: v.Self}}
}

func (v *containerView) close() { v.sim.hub.unsubscribe(v.feed) }

// DestroyView is the VIM method.
func (v *containerView) DestroyView(ctx *simulator.Context, req *types.DestroyView) soap.HasFault {
	v.close()
	v.sim.unwatch(ctx.Session, v.Self)
	ctx.Session.Remove(ctx, req.This)
	return &methods.DestroyViewBody{Res: &types.DestroyViewResponse{}}
}

// current gives the members, not to be written to, and a number that differs when they do.
func (v *containerView) current() ([]ref, int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	before := v.generation
	for r, gone := range v.feed.take() {
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
		v.sorted = slices.SortedFunc(maps.Keys(v.members), compareRefs)
	}
	return v.sorted, v.generation
}

func (v *containerView) includes(r ref) bool {
	wanted := len(v.Type) == 0 || slices.ContainsFunc(v.Type, func(kind string) bool { return isA(r.Type, kind) })
	if !wanted || r == v.Container {
		return false
	}
	ctx := v.sim.fresh()
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
func (v *containerView) above(ctx *simulator.Context, r ref) bool {
	for _, parent := range parents(ctx, r) {
		if parent == v.Container || v.above(ctx, parent) {
			return true
		}
	}
	return false
}

// parents are the objects that hold the entity: its parent, and for a VM its pool and its host.
func parents(ctx *simulator.Context, r ref) (found []ref) {
	e, ok := ctx.Map.Get(r).(mo.Entity)
	if !ok {
		return nil
	}
	add := func(p *ref) {
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

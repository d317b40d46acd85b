package properties

import (
	"maps"
	"reflect"
	"slices"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/vim"
)

// values are an object's properties by path, as the client last got them.
type values map[string]types.AnyType

// filter selects objects and properties; its collector's lock guards it.
type filter struct {
	mo.PropertyFilter
	owner   *collector
	members map[vim.Ref]values
	passed  map[vim.Ref]int // objects that the selection went through, views with their generation
	stale   bool            // the selection must be made anew
}

// Lock and Unlock opt out of the library's lock per object.
func (f *filter) Lock() {}

// Unlock see Lock.
func (f *filter) Unlock() {}

// DestroyPropertyFilter is the VIM method.
func (f *filter) DestroyPropertyFilter(ctx *simulator.Context, req *types.DestroyPropertyFilter) soap.HasFault {
	c := f.owner
	c.mu.Lock()
	c.filters = slices.DeleteFunc(c.filters, func(other *filter) bool { return other == f })
	simulator.RemoveReference(&c.Filter, f.Self)
	c.pages = slices.DeleteFunc(c.pages, func(u types.PropertyFilterUpdate) bool { return u.Filter == f.Self })
	c.mu.Unlock()
	ctx.Session.Remove(ctx, req.This)
	return &methods.DestroyPropertyFilterBody{Res: &types.DestroyPropertyFilterResponse{}}
}

// check refuses what vCenter refuses when a filter is made.
func (f *filter) check(ctx *simulator.Context) types.BaseMethodFault {
	for _, p := range f.Spec.PropSet {
		for _, path := range p.PathSet {
			if !vim.HasProperty(p.Type, path) {
				return &types.InvalidProperty{Name: path}
			}
		}
	}
	for _, o := range f.Spec.ObjectSet {
		if ctx.Session.Get(o.Obj) == nil {
			return &types.ManagedObjectNotFound{Obj: o.Obj}
		}
	}
	return nil
}

// updates tells what the client does not know yet, given what changed since it was last asked.
func (f *filter) updates(ctx *simulator.Context, dirty map[vim.Ref]bool) []types.ObjectUpdate {
	var out []types.ObjectUpdate
	entered := map[vim.Ref]bool{}
	if f.stale || f.moved(ctx, dirty) {
		out = f.reselect(ctx, entered)
	}
	for _, r := range slices.SortedFunc(maps.Keys(dirty), vim.CompareRefs) {
		known, member := f.members[r]
		if !member || entered[r] {
			continue
		}
		now, exists := f.read(ctx, r)
		if dirty[r] || !exists {
			delete(f.members, r)
			out = append(out, types.ObjectUpdate{Kind: types.ObjectUpdateKindLeave, Obj: r})
			continue
		}
		f.members[r] = now
		if changes := difference(known, now); len(changes) != 0 {
			out = append(out, types.ObjectUpdate{Kind: types.ObjectUpdateKindModify, Obj: r, ChangeSet: changes})
		}
	}
	return out
}

// reselect walks the traversal again and tells who left and who entered.
func (f *filter) reselect(ctx *simulator.Context, entered map[vim.Ref]bool) (out []types.ObjectUpdate) {
	selected, passed := f.traverse(ctx)
	f.passed, f.stale = passed, false
	for _, r := range slices.SortedFunc(maps.Keys(f.members), vim.CompareRefs) {
		if !selected.has[r] {
			delete(f.members, r)
			out = append(out, types.ObjectUpdate{Kind: types.ObjectUpdateKindLeave, Obj: r})
		}
	}
	for _, r := range selected.order {
		if _, member := f.members[r]; member {
			continue
		}
		now, exists := f.read(ctx, r)
		if !exists {
			continue
		}
		f.members[r] = now
		entered[r] = true
		out = append(out, types.ObjectUpdate{Kind: types.ObjectUpdateKindEnter, Obj: r, ChangeSet: difference(nil, now)})
	}
	return out
}

// moved tells whether the selection may have changed.
func (f *filter) moved(ctx *simulator.Context, dirty map[vim.Ref]bool) bool {
	for r, generation := range f.passed {
		if view, ok := ctx.Session.Get(r).(*containerView); ok {
			if _, now := view.current(); now != generation {
				return true
			}
		} else if _, changed := dirty[r]; changed {
			return true
		}
	}
	return false
}

// read gives the object's values; false if it is gone, or of a type that the filter does not report.
func (f *filter) read(ctx *simulator.Context, r vim.Ref) (values, bool) {
	object, ok := f.owner.retrieve(ctx, r, f.Spec.PropSet)
	if !ok {
		return nil, false
	}
	now := values{}
	for _, p := range object.PropSet {
		now[p.Name] = p.Val
	}
	return now, true
}

// retrieve is the library's retrieval of one object: it locks it, and copies what it reads.
func (c *collector) retrieve(ctx *simulator.Context, r vim.Ref, props []types.PropertySpec) (types.ObjectContent, bool) {
	res := c.RetrievePropertiesEx(ctx, &types.RetrievePropertiesEx{SpecSet: []types.PropertyFilterSpec{{
		PropSet: props, ObjectSet: []types.ObjectSpec{{Obj: r}},
	}}})
	body, ok := res.(*methods.RetrievePropertiesExBody)
	if !ok || body.Res == nil || body.Res.Returnval == nil || len(body.Res.Returnval.Objects) == 0 {
		return types.ObjectContent{}, false
	}
	return body.Res.Returnval.Objects[0], true
}

// difference lists the changes from one state to another; what is no longer set is assigned nothing.
func difference(before, after values) []types.PropertyChange {
	var changes []types.PropertyChange
	names := maps.Clone(after)
	maps.Copy(names, before)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		now, set := after[name]
		was, had := before[name]
		if set == had && reflect.DeepEqual(was, now) {
			continue
		}
		changes = append(changes, types.PropertyChange{Name: name, Op: types.PropertyChangeOpAssign, Val: now})
	}
	return changes
}

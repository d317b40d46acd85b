package properties

import (
	"slices"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/vim"
)

// selection is an ordered set of objects.
type selection struct {
	order []vim.Ref
	has   map[vim.Ref]bool
}

func (s *selection) add(r vim.Ref) {
	if !s.has[r] {
		s.has[r] = true
		s.order = append(s.order, r)
	}
}

// walk is one walk along a filter's traversal specs.
type walk struct {
	ctx    *simulator.Context
	owner  *collector
	named  map[string]*types.TraversalSpec
	found  selection
	passed map[vim.Ref]int
	trail  map[step]bool // guards against specs that name themselves
}

type step struct {
	from vim.Ref
	spec *types.TraversalSpec
}

// traverse selects the filter's objects, and notes through which others it came to them.
func (f *filter) traverse(ctx *simulator.Context) (selection, map[vim.Ref]int) {
	w := &walk{
		ctx: ctx, owner: f.owner, named: map[string]*types.TraversalSpec{},
		found: selection{has: map[vim.Ref]bool{}}, passed: map[vim.Ref]int{}, trail: map[step]bool{},
	}
	for _, o := range f.Spec.ObjectSet {
		w.learn(o.SelectSet)
	}
	for _, o := range f.Spec.ObjectSet {
		if o.Skip == nil || !*o.Skip {
			w.found.add(o.Obj)
		}
		w.follow(o.Obj, o.SelectSet)
	}
	return w.found, w.passed
}

// learn collects the specs that have names, so that others can refer to them.
func (w *walk) learn(set []types.BaseSelectionSpec) {
	for _, s := range set {
		if spec, ok := s.(*types.TraversalSpec); ok {
			if spec.Name != "" {
				w.named[spec.Name] = spec
			}
			w.learn(spec.SelectSet)
		}
	}
}

func (w *walk) follow(from vim.Ref, set []types.BaseSelectionSpec) {
	for _, s := range set {
		spec, ok := s.(*types.TraversalSpec)
		if !ok {
			spec = w.named[s.GetSelectionSpec().Name]
		}
		if spec == nil || !vim.IsA(from.Type, spec.Type) || w.trail[step{from, spec}] {
			continue
		}
		w.trail[step{from, spec}] = true
		for _, r := range w.references(from, spec.Path) {
			if spec.Skip == nil || !*spec.Skip {
				w.found.add(r)
			}
			w.follow(r, spec.SelectSet)
		}
	}
}

// references reads a property that holds references, and notes that the selection depends on its object.
func (w *walk) references(from vim.Ref, path string) []vim.Ref {
	w.passed[from] = 0
	switch o := w.ctx.Session.Get(from).(type) {
	case *containerView:
		members, generation := o.current()
		w.passed[from] = generation
		return members
	case *simulator.ListView:
		var members []vim.Ref
		w.ctx.WithLock(o, func() { members = slices.Clone(o.View) })
		return members
	}
	object, ok := w.owner.retrieve(w.ctx, from, []types.PropertySpec{{Type: from.Type, PathSet: []string{path}}})
	if !ok || len(object.PropSet) == 0 {
		return nil
	}
	switch v := object.PropSet[0].Val.(type) {
	case vim.Ref:
		return []vim.Ref{v}
	case types.ArrayOfManagedObjectReference:
		return v.ManagedObjectReference
	case *types.ArrayOfManagedObjectReference:
		return v.ManagedObjectReference
	}
	return nil
}

package properties

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/core"
	"layercake.invalid/sim/vcsim/vim"
)

// maxPage is vCenter's own limit of object updates in one answer.
const maxPage = 100

// gather is how long changes are allowed to accumulate before they are looked at.
const gather = 3 * time.Millisecond

// collector is a PropertyCollector that serves watching clients: it remembers what it sent and sends the difference.
// The session clones it by reflection, so that its zero value must be good. Retrievals are the library's.
type collector struct {
	simulator.PropertyCollector

	mu         sync.Mutex
	properties *Properties
	feed       *core.Feed
	filters    []*filter
	closed     bool
	cancel     context.CancelFunc // of the wait in progress

	version int                          // of the last answer
	sent    *sent                        // the last answer, in case it was lost
	pages   []types.PropertyFilterUpdate // calculated, not yet sent
}

// sent is an answer together with the version that it answered.
type sent struct {
	from      string
	truncated bool // from was the version of a truncated answer, which can be used only once
	set       *types.UpdateSet
}

// anchor leads collectors to their Properties. Sessions clone collectors by reflection, and a clone can reach only the
// registry.
type anchor struct {
	mo.ExtensibleManagedObject // the library expects one in every object it walks over
	properties                 *Properties
}

var anchorRef = vim.Ref{Type: "LayercakeProperties", Value: "properties"}

func newAnchor(s *Properties) *anchor {
	a := &anchor{properties: s}
	a.Self = anchorRef
	return a
}

// propertiesOf returns the Properties of the simulator that a Context belongs to.
func propertiesOf(ctx *simulator.Context) *Properties {
	return ctx.Map.Get(anchorRef).(*anchor).properties
}

// attach finds the simulator for a collector that came to life as a session's clone.
func (c *collector) attach(ctx *simulator.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.properties != nil {
		return
	}
	c.properties = propertiesOf(ctx)
	c.feed = c.properties.Hub.Subscribe()
	c.properties.Watch(ctx.Session, c.Self, c.close)
}

// close ends the wait in progress; nothing can be asked of the collector afterwards.
func (c *collector) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.feed != nil {
		c.properties.Hub.Unsubscribe(c.feed)
	}
	if c.cancel != nil {
		c.cancel()
	}
}

// CreatePropertyCollector is the VIM method.
func (c *collector) CreatePropertyCollector(ctx *simulator.Context, _ *types.CreatePropertyCollector) soap.HasFault {
	made := &collector{}
	made.Self.Type = "PropertyCollector"
	return &methods.CreatePropertyCollectorBody{
		Res: &types.CreatePropertyCollectorResponse{Returnval: ctx.Session.Put(made).Reference()},
	}
}

// DestroyPropertyCollector is the VIM method.
func (c *collector) DestroyPropertyCollector(ctx *simulator.Context, req *types.DestroyPropertyCollector) soap.HasFault {
	c.attach(ctx)
	c.close()
	c.properties.Unwatch(ctx.Session, c.Self)
	for _, f := range c.filters {
		ctx.Session.Remove(ctx, f.Self)
	}
	ctx.Session.Remove(ctx, req.This)
	return &methods.DestroyPropertyCollectorBody{Res: &types.DestroyPropertyCollectorResponse{}}
}

// CreateFilter is the VIM method. A wait in progress hears of the filter at once.
func (c *collector) CreateFilter(ctx *simulator.Context, req *types.CreateFilter) soap.HasFault {
	c.attach(ctx)
	f := &filter{owner: c, members: map[vim.Ref]values{}, stale: true}
	f.Self.Type = "PropertyFilter"
	f.Spec, f.PartialUpdates = req.Spec, req.PartialUpdates
	if fault := f.check(ctx); fault != nil {
		return vim.FaultBody("The filter is not valid", fault)
	}
	self := ctx.Session.Put(f).Reference()
	c.mu.Lock()
	c.filters = append(c.filters, f)
	c.Filter = append(c.Filter, self)
	c.mu.Unlock()
	c.feed.Poke()
	return &methods.CreateFilterBody{Res: &types.CreateFilterResponse{Returnval: self}}
}

// CancelWaitForUpdates is the VIM method.
func (c *collector) CancelWaitForUpdates(*types.CancelWaitForUpdates) soap.HasFault {
	c.mu.Lock()
	if c.cancel != nil {
		c.cancel()
	}
	c.mu.Unlock()
	return &methods.CancelWaitForUpdatesBody{Res: &types.CancelWaitForUpdatesResponse{}}
}

// CheckForUpdates is the VIM method.
func (c *collector) CheckForUpdates(ctx *simulator.Context, req *types.CheckForUpdates) soap.HasFault {
	set, fault := c.wait(ctx, request{version: req.Version, until: time.Now()})
	if fault != nil {
		return vim.FaultBody("", fault)
	}
	return &methods.CheckForUpdatesBody{Res: &types.CheckForUpdatesResponse{Returnval: set}}
}

// WaitForUpdates is the VIM method.
func (c *collector) WaitForUpdates(ctx *simulator.Context, req *types.WaitForUpdates) soap.HasFault {
	set, fault := c.wait(ctx, request{version: req.Version})
	if fault != nil {
		return vim.FaultBody("", fault)
	}
	return &methods.WaitForUpdatesBody{Res: &types.WaitForUpdatesResponse{Returnval: *set}}
}

// WaitForUpdatesEx is the VIM method.
func (c *collector) WaitForUpdatesEx(ctx *simulator.Context, req *types.WaitForUpdatesEx) soap.HasFault {
	r := request{version: req.Version, page: maxPage}
	if o := req.Options; o != nil {
		if o.MaxObjectUpdates > 0 && o.MaxObjectUpdates < maxPage {
			r.page = int(o.MaxObjectUpdates)
		}
		if o.MaxWaitSeconds != nil {
			r.until = time.Now().Add(time.Duration(*o.MaxWaitSeconds) * time.Second)
		}
	}
	set, fault := c.wait(ctx, r)
	if fault != nil {
		return vim.FaultBody("", fault)
	}
	return &methods.WaitForUpdatesExBody{Res: &types.WaitForUpdatesExResponse{Returnval: set}}
}

// request is one wait: a zero time waits for ever, no page size never truncates.
type request struct {
	version string
	until   time.Time
	page    int
}

// wait gives the next answer; nil when time is up.
func (c *collector) wait(ctx *simulator.Context, r request) (*types.UpdateSet, types.BaseMethodFault) {
	c.attach(ctx)
	waiting, done, again, fault := c.begin(ctx, r)
	if fault != nil || again != nil {
		return again, fault
	}
	defer done()
	c.properties.Waits.Add(1)
	defer c.properties.Waits.Add(-1)
	for {
		set, fault := c.next(ctx, waiting, r)
		if set != nil || fault != nil {
			return set, fault
		}
		select {
		case <-waiting.Done():
			return nil, ended(waiting)
		case <-c.feed.Wake:
		}
		select {
		case <-waiting.Done():
		case <-time.After(gather):
		}
	}
}

// begin settles which version the client has, and takes the place of a wait that is still in progress. If the client
// has the version before the last, the last answer was lost and is given again.
func (c *collector) begin(ctx *simulator.Context, r request) (context.Context, func(), *types.UpdateSet, types.BaseMethodFault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return nil, nil, nil, &types.RequestCanceled{}
	case r.version == "":
		c.sent, c.pages = nil, nil
		for _, f := range c.filters {
			f.members, f.stale = map[vim.Ref]values{}, true
		}
	case c.sent == nil:
		return nil, nil, nil, &types.InvalidCollectorVersion{}
	case r.version == c.sent.set.Version:
	case r.version == c.sent.from && !c.sent.truncated:
		return nil, nil, c.sent.set, nil
	default:
		return nil, nil, nil, &types.InvalidCollectorVersion{}
	}
	if c.cancel != nil {
		c.cancel()
	}
	waiting, cancel := context.WithCancel(c.properties.CallContext(ctx))
	c.cancel = cancel
	if r.until.IsZero() {
		return waiting, cancel, nil, nil
	}
	waiting, stop := context.WithDeadline(waiting, r.until)
	return waiting, func() { stop(); cancel() }, nil, nil
}

// next calculates an answer, if there is one to give. The first is always given, even if nothing is selected.
func (c *collector) next(ctx *simulator.Context, waiting context.Context, r request) (*types.UpdateSet, types.BaseMethodFault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || waiting.Err() == context.Canceled {
		return nil, &types.RequestCanceled{}
	}
	if len(c.pages) == 0 {
		c.calculate(ctx)
	}
	if len(c.pages) == 0 && r.version != "" {
		return nil, nil
	}
	c.version++
	set := &types.UpdateSet{Version: strconv.Itoa(c.version)}
	set.FilterSet, c.pages = cut(c.pages, r.page)
	if len(c.pages) != 0 {
		set.Truncated = types.NewBool(true)
	}
	truncated := c.sent != nil && c.sent.set.Truncated != nil
	c.sent = &sent{from: r.version, truncated: truncated, set: set}
	return set, nil
}

// ended gives the reason why a wait is over: time, which is no fault, or a request.
func ended(waiting context.Context) types.BaseMethodFault {
	if waiting.Err() == context.DeadlineExceeded {
		return nil
	}
	return &types.RequestCanceled{}
}

// calculate asks each filter what changed, given what did.
func (c *collector) calculate(ctx *simulator.Context) {
	dirty := c.feed.Take()
	for _, f := range c.filters {
		if updates := f.updates(ctx, dirty); len(updates) != 0 {
			c.pages = append(c.pages, types.PropertyFilterUpdate{Filter: f.Self, ObjectSet: updates})
		}
	}
}

// cut takes at most max object updates off the front.
func cut(all []types.PropertyFilterUpdate, max int) (page, rest []types.PropertyFilterUpdate) {
	if max == 0 {
		return all, nil
	}
	for i, u := range all {
		if len(u.ObjectSet) > max {
			if max > 0 {
				page = append(page, types.PropertyFilterUpdate{Filter: u.Filter, ObjectSet: u.ObjectSet[:max]})
			}
			left := types.PropertyFilterUpdate{Filter: u.Filter, ObjectSet: u.ObjectSet[max:]}
			return page, append([]types.PropertyFilterUpdate{left}, all[i+1:]...)
		}
		page = append(page, u)
		max -= len(u.ObjectSet)
	}
	return page, nil
}

package core

import (
	"reflect"
	"sync"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// Clock is vCenter's own, which may be wrong and may be set while clients watch. What was noted before keeps its time.
type Clock struct {
	mu        sync.Mutex
	settings  []setting  // oldest first
	forgotten []interval // of the history, by the true time
}

type setting struct {
	at     time.Time // true time
	offset time.Duration
}

type interval struct{ from, to time.Time }

// shown is what the clock showed at that true time.
func (c *Clock) shown(at time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := len(c.settings) - 1; i >= 0; i-- {
		if !c.settings[i].at.After(at) {
			return at.Add(c.settings[i].offset)
		}
	}
	return at
}

// Now is what the clock shows.
func (c *Clock) Now() time.Time { return c.shown(time.Now()) }

// Set sets the offset of the clock from the true time.
func (c *Clock) Set(offset time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settings = append(c.settings, setting{time.Now(), offset})
}

// Forget takes what was noted since then out of the history.
func (c *Clock) Forget(since time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgotten = append(c.forgotten, interval{since, time.Now()})
}

func (c *Clock) forgot(at time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, i := range c.forgotten {
		if at.After(i.from) && at.Before(i.to) {
			return true
		}
	}
	return false
}

// Methods are those that read the clock.
func (vc *VCenter) Methods() map[string]Override {
	return map[string]Override{
		"CurrentTime": vc.currentTime,
		"QueryEvents": vc.queryEvents,
	}
}

func (vc *VCenter) currentTime(*simulator.Context, *Call, types.AnyType) soap.HasFault {
	return &methods.CurrentTimeBody{Res: &types.CurrentTimeResponse{Returnval: vc.Clock.Now()}}
}

// queryEvents gives events the time that the clock showed when they were noted, and compares that.
func (vc *VCenter) queryEvents(ctx *simulator.Context, _ *Call, body types.AnyType) soap.HasFault {
	req := *body.(*types.QueryEvents)
	limits := req.Filter.Time
	req.Filter.Time = nil
	res := vc.Invoke(ctx, req.This, "QueryEvents", &req)
	events, ok := res.(*methods.QueryEventsBody)
	if !ok || events.Res == nil {
		return res
	}
	seen := []types.BaseEvent{}
	for _, noted := range events.Res.Returnval {
		at := noted.GetEvent().CreatedTime
		shown := vc.Clock.shown(at)
		early := limits != nil && limits.BeginTime != nil && shown.Before(*limits.BeginTime)
		late := limits != nil && limits.EndTime != nil && shown.After(*limits.EndTime)
		if !early && !late && !vc.Clock.forgot(at) {
			seen = append(seen, withTime(noted, shown))
		}
	}
	return &methods.QueryEventsBody{Res: &types.QueryEventsResponse{Returnval: seen}}
}

// withTime is a copy of the event: the library keeps its own.
func withTime(noted types.BaseEvent, at time.Time) types.BaseEvent {
	own := reflect.New(reflect.TypeOf(noted).Elem())
	own.Elem().Set(reflect.ValueOf(noted).Elem())
	event := own.Interface().(types.BaseEvent)
	event.GetEvent().CreatedTime = at
	return event
}

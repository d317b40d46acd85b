package main

import (
	"sync"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"
)

// watchers are the objects that live in a session and must be closed with it: collectors and views. The library
// forgets a session without telling anybody, so they are looked after here.
type watchers struct {
	mu   sync.Mutex
	open map[ref]watcher
}

type watcher struct {
	key, user string
	close     func()
}

func (s *Sim) watch(session *simulator.Session, self ref, closeIt func()) {
	s.watchers.mu.Lock()
	defer s.watchers.mu.Unlock()
	if s.watchers.open == nil {
		s.watchers.open = map[ref]watcher{}
	}
	// The root collectors of all sessions have one moref: the session makes it unique.
	s.watchers.open[ref{Type: self.Type, Value: session.Key + self.Value}] = watcher{session.Key, session.UserName, closeIt}
}

func (s *Sim) unwatch(session *simulator.Session, self ref) {
	s.watchers.mu.Lock()
	defer s.watchers.mu.Unlock()
	delete(s.watchers.open, ref{Type: self.Type, Value: session.Key + self.Value})
}

// reap closes what belongs to sessions that are no more.
func (s *Sim) reap() {
	s.watchers.mu.Lock()
	var dead []func()
	for self, w := range s.watchers.open {
		if !s.sessionLives(w.key, w.user) {
			dead = append(dead, w.close)
			delete(s.watchers.open, self)
		}
	}
	s.watchers.mu.Unlock()
	for _, closeIt := range dead {
		closeIt()
	}
}

// taskLife is how long vCenter keeps a task that has ended.
const taskLife = 10 * time.Minute

// reapEverySecond finds the sessions that expire by themselves, and drops old tasks.
func (s *Sim) reapEverySecond() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-s.done:
			return
		case <-tick.C:
			s.reap()
			for _, task := range s.hub.outdated(time.Now().Add(-taskLife)) {
				s.registry.Remove(s.fresh(), task)
			}
		}
	}
}

func (s *Sim) sessionLives(key, user string) bool {
	res := s.registry.SessionManager().SessionIsActive(s.fresh(), &types.SessionIsActive{SessionID: key, UserName: user})
	body, ok := res.(*methods.SessionIsActiveBody)
	return ok && body.Res != nil && body.Res.Returnval
}

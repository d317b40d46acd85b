package core

import (
	"sync"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/vim"
)

// watchers are the objects that live in a session and must be closed with it: collectors and views. The library
// forgets a session without telling anybody, so they are looked after here.
type watchers struct {
	mu   sync.Mutex
	open map[vim.Ref]watcher
}

type watcher struct {
	key, user string
	close     func()
}

// Watch closes an object when its session ends.
func (vc *VCenter) Watch(session *simulator.Session, self vim.Ref, closeIt func()) {
	vc.watchers.mu.Lock()
	defer vc.watchers.mu.Unlock()
	if vc.watchers.open == nil {
		vc.watchers.open = map[vim.Ref]watcher{}
	}
	// The root collectors of all sessions have one moref: the session makes it unique.
	vc.watchers.open[vim.Ref{Type: self.Type, Value: session.Key + self.Value}] = watcher{session.Key, session.UserName, closeIt}
}

// Unwatch undoes Watch: the owner closes the object.
func (vc *VCenter) Unwatch(session *simulator.Session, self vim.Ref) {
	vc.watchers.mu.Lock()
	defer vc.watchers.mu.Unlock()
	delete(vc.watchers.open, vim.Ref{Type: self.Type, Value: session.Key + self.Value})
}

// Reap closes what belongs to sessions that are no more.
func (vc *VCenter) Reap() {
	vc.watchers.mu.Lock()
	var dead []func()
	for self, w := range vc.watchers.open {
		if !vc.sessionLives(w.key, w.user) {
			dead = append(dead, w.close)
			delete(vc.watchers.open, self)
		}
	}
	vc.watchers.mu.Unlock()
	for _, closeIt := range dead {
		closeIt()
	}
}

// taskLife is how long vCenter keeps a task that has ended.
const taskLife = 10 * time.Minute

// reapEverySecond finds the sessions that expire by themselves, and drops old tasks.
func (vc *VCenter) reapEverySecond() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-vc.Done:
			return
		case <-tick.C:
			vc.Reap()
			for _, task := range vc.Hub.outdated(time.Now().Add(-taskLife)) {
				vc.Registry.Remove(vc.Fresh(), task)
			}
		}
	}
}

func (vc *VCenter) sessionLives(key, user string) bool {
	res := vc.Registry.SessionManager().SessionIsActive(vc.Fresh(), &types.SessionIsActive{SessionID: key, UserName: user})
	body, ok := res.(*methods.SessionIsActiveBody)
	return ok && body.Res != nil && body.Res.Returnval
}

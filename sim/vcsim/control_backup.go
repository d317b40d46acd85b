package main

import (
	"net/http"
	"time"
)

// restorePatience is how long a restore waits for tasks that still run.
const restorePatience = 10 * time.Second

// controlBackup notes what vCenter's database knows; an earlier backup is replaced.
func (s *Sim) controlBackup(*http.Request) (any, error) {
	taken := s.takeBackup()
	s.backups.mu.Lock()
	defer s.backups.mu.Unlock()
	s.backups.last = taken
	return nil, nil
}

// controlRestore puts vCenter back to the backup: nobody reaches it meanwhile, and all sessions are gone.
func (s *Sim) controlRestore(r *http.Request) (any, error) {
	s.backups.mu.Lock()
	defer s.backups.mu.Unlock()
	if s.backups.last == nil {
		return nil, refuse(http.StatusConflict, "there is no backup")
	}
	s.frontLock.Lock()
	defer s.frontLock.Unlock()
	_ = s.frontServer.Close()
	if _, err := s.controlExpire(r); err != nil {
		return nil, err
	}
	// What hosts are about they end.
	for until := time.Now().Add(restorePatience); len(s.runningTasks(fresh(s.svc))) != 0 && time.Now().Before(until); {
		time.Sleep(time.Millisecond)
	}
	s.restore(s.backups.last)
	return nil, s.openFront()
}

// controlReconnect has the hosts connected again, by which vCenter finds the VMs that it does not know.
func (s *Sim) controlReconnect(*http.Request) (any, error) {
	return nil, s.discover()
}

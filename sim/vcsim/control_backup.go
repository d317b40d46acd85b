package main

import "net/http"

func (s *Sim) controlBackup(*http.Request) (any, error) {
	s.takeBackup()
	return nil, nil
}

func (s *Sim) controlRestore(*http.Request) (any, error) {
	if there, err := s.restoreBackup(); there || err != nil {
		return nil, err
	}
	return nil, refuse(http.StatusConflict, "there is no backup")
}

// controlReconnect has the hosts connected again, by which vCenter finds the VMs that it does not know.
func (s *Sim) controlReconnect(*http.Request) (any, error) {
	if err := s.discover(); err != nil {
		return nil, refuse(http.StatusConflict, "%v", err)
	}
	return nil, nil
}

package main

import "net/http"

func (s *Sim) controlAddFault(r *http.Request) (any, error) {
	var order rule
	if err := decodeStrict(r, &order); err != nil {
		return nil, err
	}
	if err := s.rules.add(&order); err != nil {
		return nil, refuse(http.StatusBadRequest, "%v", err)
	}
	return map[string]string{"id": order.ID}, nil
}

func (s *Sim) controlFaults(*http.Request) (any, error) {
	return map[string]any{"faults": s.rules.snapshot()}, nil
}

func (s *Sim) controlRemoveFault(r *http.Request) (any, error) {
	if id := r.PathValue("id"); !s.rules.remove(id) {
		return nil, refuse(http.StatusNotFound, "fault %s does not exist", id)
	}
	return nil, nil
}

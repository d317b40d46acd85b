package control

import (
	"net/http"

	"layercake.invalid/sim/vcsim/faults"
)

func (api *API) controlAddFault(r *http.Request) (any, error) {
	var order faults.Rule
	if err := decodeStrict(r, &order); err != nil {
		return nil, err
	}
	if err := api.Rules.Add(&order); err != nil {
		return nil, refuse(http.StatusBadRequest, "%v", err)
	}
	return map[string]string{"id": order.ID}, nil
}

func (api *API) controlFaults(*http.Request) (any, error) {
	return map[string]any{"faults": api.Rules.Snapshot()}, nil
}

func (api *API) controlRemoveFault(r *http.Request) (any, error) {
	if id := r.PathValue("id"); !api.Rules.Remove(id) {
		return nil, refuse(http.StatusNotFound, "fault %s does not exist", id)
	}
	return nil, nil
}

// Package control is the control API, by which tests, guests and administrators act on a simulated vCenter.
package control

import (
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/access"
	"layercake.invalid/sim/vcsim/backup"
	"layercake.invalid/sim/vcsim/compute"
	"layercake.invalid/sim/vcsim/core"
	"layercake.invalid/sim/vcsim/inventory"
	"layercake.invalid/sim/vcsim/library"
	"layercake.invalid/sim/vcsim/outage"
	"layercake.invalid/sim/vcsim/storage"
	"layercake.invalid/sim/vcsim/traffic"
	"layercake.invalid/sim/vcsim/vim"
	"layercake.invalid/sim/vcsim/wire"
)

// API is what tests, guests and administrators do to a simulated vCenter, beside its own APIs.
type API struct {
	*core.VCenter
	Parts
}

// Parts are the parts of a simulated vCenter that the API acts on.
type Parts struct {
	Storage    *storage.Storage
	Outages    *outage.Outages
	Privileges *access.Privileges
	Inventory  *inventory.Inventory
	Compute    *compute.Compute
	Wire       *wire.Server
	Library    *library.Libraries
	Backups    *backup.Backups
}

// New gives the API of a vCenter.
func New(vc *core.VCenter, parts Parts) *API { return &API{vc, parts} }

// Handler is the control API: plain HTTP on loopback, with a bearer token.
func (api *API) Handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, act := range api.routes() {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { answer(w, r, act) })
	}
	want := []byte("Bearer " + api.Options.Credentials.ControlToken)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), want) != 1 {
			writeError(w, http.StatusUnauthorized, "the control API's bearer token is missing or wrong")
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// action carries a request out.
type action func(*http.Request) (any, error)

// answer writes what came of a request: a value is 200, nil is 204, an error is {"error":…}.
func answer(w http.ResponseWriter, r *http.Request, act action) {
	value, err := act(r)
	var refused *refusal
	switch {
	case errors.As(err, &refused):
		writeError(w, refused.status, refused.message)
	case err != nil:
		writeError(w, http.StatusInternalServerError, err.Error())
	case value == nil:
		w.WriteHeader(http.StatusNoContent)
	default:
		traffic.WriteJSON(w, http.StatusOK, value)
	}
}

func writeError(w http.ResponseWriter, status int, message string) {
	traffic.WriteJSON(w, status, map[string]string{"error": message})
}

// refusal is an error with its status.
type refusal struct {
	status  int
	message string
}

// Error is part of error.
func (e *refusal) Error() string { return e.message }

func refuse(status int, format string, args ...any) error {
	return &refusal{status, fmt.Sprintf(format, args...)}
}

func invalid(format string, args ...any) error { return refuse(http.StatusBadRequest, format, args...) }

func conflict(format string, args ...any) error { return refuse(http.StatusConflict, format, args...) }

func notFound(format string, args ...any) error { return refuse(http.StatusNotFound, format, args...) }

// decode refuses members that it does not know: a test that misspells one must not pass.
func decode[T any](r *http.Request) (order T, err error) {
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&order); err != nil {
		return order, invalid("body: %v", err)
	}
	return order, nil
}

// look is an action without parameters that answers with a value.
func look(see func() any) action {
	return func(*http.Request) (any, error) { return see(), nil }
}

// do is an action without parameters and without an answer.
func do(act func()) action {
	return func(*http.Request) (any, error) { act(); return nil, nil }
}

// order is an action whose parameters are the body.
func order[T any](act func(*http.Request, T) (any, error)) action {
	return func(r *http.Request) (any, error) {
		order, err := decode[T](r)
		if err != nil {
			return nil, err
		}
		return act(r, order)
	}
}

// target is the VM of a path, with a Context to lock it by.
type target struct {
	*simulator.VirtualMachine
	ctx *simulator.Context
	id  string // the second id in the path, for example of a disk
}

// locked runs f with the VM's lock held.
func (t target) locked(f func()) { t.ctx.WithLock(t.VirtualMachine, f) }

// update is called with the VM's lock held.
func (t target) update(changes []types.PropertyChange) { t.ctx.Update(t.VirtualMachine, changes) }

func (t target) config() types.VirtualMachineConfigInfo { return vim.VMConfig(t.ctx, t.VirtualMachine) }

// onVM is an action on the VM that the path names.
func (api *API) onVM(act func(target) (any, error)) action {
	return func(r *http.Request) (any, error) {
		ctx := api.Fresh()
		vm, ok := api.VMOf(ctx, r.PathValue("moid"))
		if !ok {
			return nil, notFound("VM %s does not exist", r.PathValue("moid"))
		}
		return act(target{vm, ctx, r.PathValue("id")})
	}
}

// orderVM is an action on the VM that the path names, whose parameters are the body.
func orderVM[T any](api *API, act func(target, T) (any, error)) action {
	return func(r *http.Request) (any, error) {
		return api.onVM(func(vm target) (any, error) {
			order, err := decode[T](r)
			if err != nil {
				return nil, err
			}
			return act(vm, order)
		})(r)
	}
}

// orderFolder is an action on the folder that the path names, whose parameters are the body.
func orderFolder[T any](api *API, act func(vim.Ref, T) error) action {
	return func(r *http.Request) (any, error) {
		folder := vim.Ref{Type: "Folder", Value: r.PathValue("moid")}
		if _, ok := api.Registry.Get(folder).(*simulator.Folder); !ok {
			return nil, notFound("folder %s does not exist", folder.Value)
		}
		order, err := decode[T](r)
		if err != nil {
			return nil, err
		}
		return nil, act(folder, order)
	}
}

// carryOut calls a method as another client of vCenter would, and waits for its end.
func (api *API) carryOut(this vim.Ref, method string, body types.AnyType) types.BaseMethodFault {
	_, fault := api.Follow(api.Carry(api.Fresh(), &core.Call{Name: method, This: this}, body))
	return fault
}

// behind calls a method as carryOut does, and returns its fault as a 409.
func (api *API) behind(this vim.Ref, method string, body types.AnyType) error {
	if fault := api.carryOut(this, method, body); fault != nil {
		return conflict("%s on %s: %s", method, this.Value, vim.FaultText(fault))
	}
	return nil
}

// Package control is the control API, by which tests, guests and administrators act on a simulated vCenter.
package control

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"layercake.invalid/sim/vcsim/access"
	"layercake.invalid/sim/vcsim/backup"
	"layercake.invalid/sim/vcsim/compute"
	"layercake.invalid/sim/vcsim/core"
	"layercake.invalid/sim/vcsim/inventory"
	"layercake.invalid/sim/vcsim/library"
	"layercake.invalid/sim/vcsim/outage"
	"layercake.invalid/sim/vcsim/storage"
	"layercake.invalid/sim/vcsim/traffic"
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
	mux.HandleFunc("GET /v1/requests", func(w http.ResponseWriter, _ *http.Request) {
		traffic.WriteJSON(w, http.StatusOK, api.Counters.Snapshot())
	})
	mux.HandleFunc("DELETE /v1/requests", func(w http.ResponseWriter, _ *http.Request) {
		api.Counters.Reset()
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET /v1/journal", controlJSON(api.controlJournal))
	mux.HandleFunc("DELETE /v1/journal", controlJSON(api.controlJournal))
	mux.HandleFunc("GET /v1/orphans", controlJSON(api.controlOrphans))
	mux.HandleFunc("DELETE /v1/orphans", controlJSON(api.controlRemoveOrphans))
	mux.HandleFunc("POST /v1/front/cut", controlJSON(api.controlCut))
	mux.HandleFunc("POST /v1/vms/{moid}/rename", controlJSON(api.controlRename))
	mux.HandleFunc("POST /v1/vms/{moid}/move", controlJSON(api.controlMove))
	mux.HandleFunc("POST /v1/vms/{moid}/disks", controlJSON(api.controlAttachFile))
	mux.HandleFunc("PUT /v1/vms/{moid}/outage", controlJSON(api.controlVMOutage))
	mux.HandleFunc("PUT /v1/hosts/{moid}/outage", controlJSON(api.controlHostOutage))
	mux.HandleFunc("PUT /v1/datastores/{name}/outage", controlJSON(api.controlStoreOutage))
	mux.HandleFunc("DELETE /v1/outages", controlJSON(api.controlEndOutages))
	mux.HandleFunc("POST /v1/folders", controlJSON(api.controlMakeFolder))
	mux.HandleFunc("POST /v1/folders/{moid}/rename", controlJSON(api.controlRenameFolder))
	mux.HandleFunc("POST /v1/folders/{moid}/move", controlJSON(api.controlMoveFolder))
	mux.HandleFunc("DELETE /v1/folders/{moid}", controlJSON(func(r *http.Request) (any, error) { return api.controlClear(r, "Folder") }))
	mux.HandleFunc("DELETE /v1/pools/{moid}", controlJSON(func(r *http.Request) (any, error) { return api.controlClear(r, "ResourcePool") }))
	mux.HandleFunc("GET /v1/vms", api.controlVMs)
	mux.HandleFunc("GET /v1/vms/{moid}/guestinfo", controlJSON(api.controlGuestInfo))
	mux.HandleFunc("PATCH /v1/vms/{moid}/guestinfo", controlJSON(api.controlSetGuestInfo))
	mux.HandleFunc("GET /v1/vms/{moid}/hardware", controlJSON(api.controlHardware))
	mux.HandleFunc("PUT /v1/vms/{moid}/guest", controlJSON(api.controlGuest))
	mux.HandleFunc("POST /v1/vms/{moid}/power", controlJSON(api.controlPower))
	mux.HandleFunc("POST /v1/vms/{moid}/copies", controlJSON(api.controlCopies))
	mux.HandleFunc("PUT /v1/vms/{moid}/disks/{id}", controlJSON(api.controlAttachDisk))
	mux.HandleFunc("DELETE /v1/vms/{moid}/disks/{id}", controlJSON(api.controlDetachDisk))
	mux.HandleFunc("GET /v1/disks", controlJSON(api.controlDisks))
	mux.HandleFunc("POST /v1/disks", controlJSON(api.controlMakeDisk))
	mux.HandleFunc("DELETE /v1/disks/{id}", controlJSON(api.controlDeleteDisk))
	mux.HandleFunc("GET /v1/inventory", controlJSON(api.controlInventory))
	mux.HandleFunc("POST /v1/faults", controlJSON(api.controlAddFault))
	mux.HandleFunc("GET /v1/faults", controlJSON(api.controlFaults))
	mux.HandleFunc("DELETE /v1/faults", controlJSON(api.controlRemoveFault))
	mux.HandleFunc("DELETE /v1/faults/{id}", controlJSON(api.controlRemoveFault))
	mux.HandleFunc("PUT /v1/privileges", controlJSON(api.controlPrivileges))
	mux.HandleFunc("PUT /v1/clock", controlJSON(api.controlClock))
	mux.HandleFunc("POST /v1/backup", controlJSON(api.controlBackup))
	mux.HandleFunc("POST /v1/restore", controlJSON(api.controlRestore))
	mux.HandleFunc("POST /v1/hosts/reconnect", controlJSON(api.controlReconnect))
	mux.HandleFunc("POST /v1/sessions/expire", controlJSON(api.controlExpire))
	mux.HandleFunc("GET /v1/sessions", controlJSON(api.controlSessions))
	mux.HandleFunc("GET /v1/uploads", controlJSON(api.controlUploads))
	mux.HandleFunc("POST /v1/uploads/expire", controlJSON(api.ControlExpireUploads))
	mux.HandleFunc("DELETE /v1/modules", controlJSON(api.controlClearModules))

	want := []byte("Bearer " + api.Options.Credentials.ControlToken)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), want) != 1 {
			traffic.WriteJSON(w, http.StatusUnauthorized, map[string]string{"error": "the control API's bearer token is missing or wrong"})
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// controlError is a refusal with its status.
type controlError struct {
	status  int
	message string
}

// Error is part of error.
func (e *controlError) Error() string { return e.message }

func refuse(status int, format string, args ...any) error {
	return &controlError{status, fmt.Sprintf(format, args...)}
}

// controlJSON turns a function of a request into a handler: a value is 200, nil is 204, an error is {"error":…}.
func controlJSON(f func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		value, err := f(r)
		switch e, isControl := err.(*controlError); {
		case isControl:
			traffic.WriteJSON(w, e.status, map[string]string{"error": e.message})
		case err != nil:
			traffic.WriteJSON(w, http.StatusInternalServerError, map[string]string{"error": err.Error()})
		case value == nil:
			w.WriteHeader(http.StatusNoContent)
		default:
			traffic.WriteJSON(w, http.StatusOK, value)
		}
	}
}

// decodeStrict refuses members that it does not know: a test that misspells one must not pass.
func decodeStrict(r *http.Request, into any) error {
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return refuse(http.StatusBadRequest, "body: %v", err)
	}
	return nil
}

// controlVMs answers as soon as the table is newer than ?since, or after ?waitMs.
func (api *API) controlVMs(w http.ResponseWriter, r *http.Request) {
	since, _ := strconv.ParseInt(r.URL.Query().Get("since"), 10, 64)
	wait, _ := strconv.Atoi(r.URL.Query().Get("waitMs"))
	ctx, cancel := context.WithTimeout(r.Context(), time.Duration(wait)*time.Millisecond)
	defer cancel()
	revision, rows := api.Machines.Since(ctx, since)
	traffic.WriteJSON(w, http.StatusOK, map[string]any{"revision": revision, "vms": rows})
}

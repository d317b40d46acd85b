package main

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// controlHandler is the control API: plain HTTP on loopback, with a bearer token.
func (s *Sim) controlHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/requests", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, s.counters.snapshot())
	})
	mux.HandleFunc("DELETE /v1/requests", func(w http.ResponseWriter, _ *http.Request) {
		s.counters.reset()
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET /v1/journal", controlJSON(s.controlJournal))
	mux.HandleFunc("DELETE /v1/journal", controlJSON(s.controlJournal))
	mux.HandleFunc("GET /v1/orphans", controlJSON(s.controlOrphans))
	mux.HandleFunc("DELETE /v1/orphans", controlJSON(s.controlRemoveOrphans))
	mux.HandleFunc("POST /v1/front/cut", controlJSON(s.controlCut))
	mux.HandleFunc("POST /v1/vms/{moid}/rename", controlJSON(s.controlRename))
	mux.HandleFunc("POST /v1/vms/{moid}/move", controlJSON(s.controlMove))
	mux.HandleFunc("POST /v1/vms/{moid}/disks", controlJSON(s.controlAttachFile))
	mux.HandleFunc("PUT /v1/vms/{moid}/outage", controlJSON(s.controlVMOutage))
	mux.HandleFunc("PUT /v1/hosts/{moid}/outage", controlJSON(s.controlHostOutage))
	mux.HandleFunc("PUT /v1/datastores/{name}/outage", controlJSON(s.controlStoreOutage))
	mux.HandleFunc("DELETE /v1/outages", controlJSON(s.controlEndOutages))
	mux.HandleFunc("POST /v1/folders", controlJSON(s.controlMakeFolder))
	mux.HandleFunc("POST /v1/folders/{moid}/rename", controlJSON(s.controlRenameFolder))
	mux.HandleFunc("POST /v1/folders/{moid}/move", controlJSON(s.controlMoveFolder))
	mux.HandleFunc("DELETE /v1/folders/{moid}", controlJSON(func(r *http.Request) (any, error) { return s.controlClear(r, "Folder") }))
	mux.HandleFunc("DELETE /v1/pools/{moid}", controlJSON(func(r *http.Request) (any, error) { return s.controlClear(r, "ResourcePool") }))
	mux.HandleFunc("GET /v1/vms", s.controlVMs)
	mux.HandleFunc("GET /v1/vms/{moid}/guestinfo", controlJSON(s.controlGuestInfo))
	mux.HandleFunc("PATCH /v1/vms/{moid}/guestinfo", controlJSON(s.controlSetGuestInfo))
	mux.HandleFunc("GET /v1/vms/{moid}/hardware", controlJSON(s.controlHardware))
	mux.HandleFunc("PUT /v1/vms/{moid}/guest", controlJSON(s.controlGuest))
	mux.HandleFunc("POST /v1/vms/{moid}/power", controlJSON(s.controlPower))
	mux.HandleFunc("POST /v1/vms/{moid}/copies", controlJSON(s.controlCopies))
	mux.HandleFunc("PUT /v1/vms/{moid}/disks/{id}", controlJSON(s.controlAttachDisk))
	mux.HandleFunc("DELETE /v1/vms/{moid}/disks/{id}", controlJSON(s.controlDetachDisk))
	mux.HandleFunc("GET /v1/disks", controlJSON(s.controlDisks))
	mux.HandleFunc("POST /v1/disks", controlJSON(s.controlMakeDisk))
	mux.HandleFunc("DELETE /v1/disks/{id}", controlJSON(s.controlDeleteDisk))
	mux.HandleFunc("GET /v1/inventory", controlJSON(s.controlInventory))
	mux.HandleFunc("POST /v1/faults", controlJSON(s.controlAddFault))
	mux.HandleFunc("GET /v1/faults", controlJSON(s.controlFaults))
	mux.HandleFunc("DELETE /v1/faults", controlJSON(s.controlRemoveFault))
	mux.HandleFunc("DELETE /v1/faults/{id}", controlJSON(s.controlRemoveFault))
	mux.HandleFunc("PUT /v1/privileges", controlJSON(s.controlPrivileges))
	mux.HandleFunc("PUT /v1/clock", controlJSON(s.controlClock))
	mux.HandleFunc("POST /v1/backup", controlJSON(s.controlBackup))
	mux.HandleFunc("POST /v1/restore", controlJSON(s.controlRestore))
	mux.HandleFunc("POST /v1/hosts/reconnect", controlJSON(s.controlReconnect))
	mux.HandleFunc("POST /v1/sessions/expire", controlJSON(s.controlExpire))
	mux.HandleFunc("GET /v1/sessions", controlJSON(s.controlSessions))
	mux.HandleFunc("GET /v1/uploads", controlJSON(s.controlUploads))
	mux.HandleFunc("POST /v1/uploads/expire", controlJSON(s.controlExpireUploads))
	mux.HandleFunc("DELETE /v1/modules", controlJSON(s.controlClearModules))

	want := []byte("Bearer " + s.options.Credentials.ControlToken)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), want) != 1 {
			writeJSON(w, http.StatusUnauthorized, map[string]string{"error": "the control API's bearer token is missing or wrong"})
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
			writeJSON(w, e.status, map[string]string{"error": e.message})
		case err != nil:
			writeJSON(w, http.StatusInternalServerError, map[string]string{"error": err.Error()})
		case value == nil:
			w.WriteHeader(http.StatusNoContent)
		default:
			writeJSON(w, http.StatusOK, value)
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
func (s *Sim) controlVMs(w http.ResponseWriter, r *http.Request) {
	since, _ := strconv.ParseInt(r.URL.Query().Get("since"), 10, 64)
	wait, _ := strconv.Atoi(r.URL.Query().Get("waitMs"))
	ctx, cancel := context.WithTimeout(r.Context(), time.Duration(wait)*time.Millisecond)
	defer cancel()
	revision, rows := s.machines.since(ctx, since)
	writeJSON(w, http.StatusOK, map[string]any{"revision": revision, "vms": rows})
}

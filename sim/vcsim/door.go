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

// doorHandler is the control door: plain HTTP on loopback, with a bearer token.
func (s *Sim) doorHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/requests", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, s.counters.snapshot())
	})
	mux.HandleFunc("DELETE /v1/requests", func(w http.ResponseWriter, _ *http.Request) {
		s.counters.reset()
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET /v1/journal", doorJSON(s.doorJournal))
	mux.HandleFunc("DELETE /v1/journal", doorJSON(s.doorJournal))
	mux.HandleFunc("GET /v1/stray", doorJSON(s.doorStray))
	mux.HandleFunc("DELETE /v1/stray", doorJSON(s.doorTidy))
	mux.HandleFunc("POST /v1/front/cut", doorJSON(s.doorCut))
	mux.HandleFunc("POST /v1/vms/{moid}/rename", doorJSON(s.doorRename))
	mux.HandleFunc("POST /v1/vms/{moid}/move", doorJSON(s.doorMove))
	mux.HandleFunc("POST /v1/vms/{moid}/disks", doorJSON(s.doorHang))
	mux.HandleFunc("POST /v1/folders", doorJSON(s.doorMakeFolder))
	mux.HandleFunc("DELETE /v1/folders/{moid}", doorJSON(func(r *http.Request) (any, error) { return s.doorClear(r, "Folder") }))
	mux.HandleFunc("DELETE /v1/pools/{moid}", doorJSON(func(r *http.Request) (any, error) { return s.doorClear(r, "ResourcePool") }))
	mux.HandleFunc("GET /v1/vms", s.doorVMs)
	mux.HandleFunc("GET /v1/vms/{moid}/guestinfo", doorJSON(s.doorGuestInfo))
	mux.HandleFunc("PATCH /v1/vms/{moid}/guestinfo", doorJSON(s.doorSetGuestInfo))
	mux.HandleFunc("PUT /v1/vms/{moid}/guest", doorJSON(s.doorGuest))
	mux.HandleFunc("POST /v1/vms/{moid}/power", doorJSON(s.doorPower))
	mux.HandleFunc("POST /v1/vms/{moid}/copies", doorJSON(s.doorCopies))
	mux.HandleFunc("PUT /v1/vms/{moid}/disks/{id}", doorJSON(s.doorAttachDisk))
	mux.HandleFunc("DELETE /v1/vms/{moid}/disks/{id}", doorJSON(s.doorDetachDisk))
	mux.HandleFunc("GET /v1/disks", doorJSON(s.doorDisks))
	mux.HandleFunc("POST /v1/disks", doorJSON(s.doorMakeDisk))
	mux.HandleFunc("DELETE /v1/disks/{id}", doorJSON(s.doorDeleteDisk))
	mux.HandleFunc("GET /v1/inventory", doorJSON(s.doorInventory))
	mux.HandleFunc("POST /v1/faults", doorJSON(s.doorAddFault))
	mux.HandleFunc("GET /v1/faults", doorJSON(s.doorFaults))
	mux.HandleFunc("DELETE /v1/faults", doorJSON(s.doorRemoveFault))
	mux.HandleFunc("DELETE /v1/faults/{id}", doorJSON(s.doorRemoveFault))
	mux.HandleFunc("POST /v1/sessions/expire", doorJSON(s.doorExpire))
	mux.HandleFunc("GET /v1/sessions", doorJSON(s.doorSessions))
	mux.HandleFunc("DELETE /v1/modules", doorJSON(s.doorClearModules))

	want := []byte("Bearer " + s.options.Credentials.DoorToken)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), want) != 1 {
			writeJSON(w, http.StatusUnauthorized, map[string]string{"error": "the door's bearer token is missing or wrong"})
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// doorError is a refusal with its status.
type doorError struct {
	status  int
	message string
}

// Error is part of error.
func (e *doorError) Error() string { return e.message }

func refuse(status int, format string, args ...any) error {
	return &doorError{status, fmt.Sprintf(format, args...)}
}

// doorJSON turns a function of a request into a handler: a value is 200, nil is 204, an error is {"error":…}.
func doorJSON(f func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		value, err := f(r)
		switch e, isDoor := err.(*doorError); {
		case isDoor:
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

// doorVMs answers as soon as the table is newer than ?since, or after ?waitMs.
func (s *Sim) doorVMs(w http.ResponseWriter, r *http.Request) {
	since, _ := strconv.ParseInt(r.URL.Query().Get("since"), 10, 64)
	wait, _ := strconv.Atoi(r.URL.Query().Get("waitMs"))
	ctx, cancel := context.WithTimeout(r.Context(), time.Duration(wait)*time.Millisecond)
	defer cancel()
	revision, rows := s.machines.since(ctx, since)
	writeJSON(w, http.StatusOK, map[string]any{"revision": revision, "vms": rows})
}

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"layercake.invalid/sim/vcsim/traffic"
	"layercake.invalid/sim/vcsim/wire"
)

func TestExchangesAreRecordedOnceAndWithoutSessions(t *testing.T) {
	folder := t.TempDir()
	r, err := traffic.NewRecorder(folder)
	must(t, err)
	handler := r.Recorded(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, `"answer"`)
	}))
	for _, path := range []string{"/api/a/17", "/api/a/18", "/api/b", "/folder/disk.vmdk"} {
		request := httptest.NewRequest(http.MethodPost, path, strings.NewReader(`{"a":1}`))
		request.Header.Set(wire.TokenHeader, "secret")
		request.Header.Set("Content-Type", "application/json")
		handler.ServeHTTP(httptest.NewRecorder(), request)
	}
	r.Close()
	files, err := filepath.Glob(filepath.Join(folder, "*"))
	must(t, err)
	info, err := os.Stat(files[0])
	must(t, err)
	text, err := os.ReadFile(files[0])
	must(t, err)
	if info.Mode().Perm() != 0o600 || strings.Count(string(text), "\n") != 2 || strings.Contains(string(text), "secret") {
		t.Errorf("%v:\n%s", info.Mode(), text)
	}
}

package main

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"layercake.invalid/sim/vcsim/traffic"
)

func (s *site) journaled() []string {
	s.t.Helper()
	var answer struct{ Calls []traffic.Entry }
	s.open("DELETE", "/v1/journal", nil, &answer)
	calls := []string{}
	for _, c := range answer.Calls {
		calls = append(calls, c.Method+" "+c.Object)
	}
	return calls
}

// A parked call is journaled, and cut off before or after it was carried out.
func TestCallsAreJournaledAndParked(t *testing.T) {
	both(t, func(t *testing.T, json bool) {
		s := newSite(t)
		c := s.login(json)
		golden, snapshot := s.golden(c)
		if calls := s.journaled(); !slices.Equal(calls, []string{"CreateVM_Task layercake", "CreateSnapshot_Task base"}) {
			t.Errorf("journal %q", calls)
		}
		for kind, left := range map[string]int{"parkCall": 0, "parkAnswer": 1} {
			id := s.order(map[string]any{"method": "CloneVM_Task", "kind": kind, "object": kind})
			failed := make(chan error, 1)
			go func() {
				_, err := golden.Clone(s.ctx, s.folder(c), kind, s.linked(snapshot))
				failed <- err
			}()
			s.held()
			s.eventually("what it did", func() bool { return len(s.vmNamed(kind)) == left })
			s.open("DELETE", "/v1/faults/"+id, nil, nil)
			if err := <-failed; err == nil {
				t.Errorf("%s: answered", kind)
			}
			if len(s.vmNamed(kind)) != left {
				t.Errorf("%s: %d VMs", kind, len(s.vmNamed(kind)))
			}
		}
	})
}

// A restart of vpxd loses connections and sessions, and no VM.
func TestTheFrontIsCutAndOpensAgain(t *testing.T) {
	s := newSite(t)
	c := s.login(true)
	vm := s.create(c, "a")
	s.answers(http.StatusNoContent, "POST", "/v1/front/cut", map[string]any{"downMs": 10, "sessions": true}, nil)
	if _, err := vm.PowerState(s.ctx); err == nil {
		t.Error("the session lives")
	}
	if !s.login(true).Valid() {
		t.Error("nobody can log in")
	}
	if len(s.vmNamed("a")) != 1 {
		t.Error("the VM is gone")
	}
}

func TestOrphanedFilesAndRenamesThroughTheControlAPI(t *testing.T) {
	s := newSite(t)
	vm := s.create(s.login(true), "a").Reference()
	must(t, os.Mkdir(filepath.Join(s.Dir, "datastore-ds0", "nobodys"), 0o700))
	var left struct{ Files, Tasks []string }
	s.open("GET", "/v1/orphans", nil, &left)
	if !slices.Equal(left.Files, []string{"ds0/nobodys"}) || len(left.Tasks) != 0 {
		t.Errorf("orphans: %+v", left)
	}
	s.answers(http.StatusNoContent, "POST", "/v1/vms/"+vm.Value+"/rename", map[string]any{"name": "b"}, nil)
	s.answers(http.StatusConflict, "POST", "/v1/vms/"+vm.Value+"/move", map[string]any{"folder": "group-none"}, nil)
	if len(s.vmNamed("b")) != 1 {
		t.Error("no VM of the new name")
	}
	var made struct{ MoID string }
	s.open("POST", "/v1/folders", map[string]any{"parent": s.Found.Folder, "name": "run"}, &made)
	s.open("POST", "/v1/vms/"+vm.Value+"/move", map[string]any{"folder": made.MoID}, nil)
	s.open("POST", "/v1/vms/"+vm.Value+"/power", map[string]any{"action": "on"}, nil)
	if status := s.open("DELETE", "/v1/folders/"+made.MoID, nil, nil); status != http.StatusNoContent || len(s.vmNamed("b")) != 0 {
		t.Errorf("clearing: %d, %v", status, s.vmNamed("b"))
	}
}

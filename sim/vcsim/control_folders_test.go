package main

import (
	"net/http"
	"testing"

	"github.com/vmware/govmomi/vim25/mo"
)

// What is in a folder leaves the views of where the folder was, and comes back with it under its ids.
func TestAMovedFolderTakesItsVMsAlong(t *testing.T) {
	both(t, func(t *testing.T, vijson bool) {
		s := newSite(t)
		c := s.login(vijson)
		var inner, outer struct{ Moid string }
		s.open("POST", "/v1/folders", map[string]any{"parent": s.found.Folder, "name": "p"}, &inner)
		vm := s.create(c, "a").Reference()
		s.open("POST", "/v1/vms/"+vm.Value+"/move", map[string]any{"folder": inner.Moid}, nil)
		s.open("GET", "/v1/inventory", nil, nil)
		w := s.watchVMs(c)
		w.until("the VM", func() bool { return w.named("a") != nil })

		top := s.registry.Get(ref{Type: "Folder", Value: s.found.Folder}).(mo.Entity).Entity().Parent
		s.open("POST", "/v1/folders", map[string]any{"parent": top.Value, "name": "elsewhere"}, &outer)
		if status := s.open("POST", "/v1/folders/"+inner.Moid+"/move", map[string]any{"folder": outer.Moid}, nil); status != http.StatusNoContent {
			t.Fatalf("move: %d", status)
		}
		w.until("its leave", func() bool { return w.named("a") == nil })
		s.open("POST", "/v1/folders/"+inner.Moid+"/rename", map[string]any{"name": "q"}, nil)
		s.open("POST", "/v1/folders/"+inner.Moid+"/move", map[string]any{"folder": s.found.Folder}, nil)
		w.until("its return", func() bool { return w.seen[vm] != nil })
		var inventory struct{ Folders []inventoryNode }
		s.open("GET", "/v1/inventory", nil, &inventory)
		for _, folder := range inventory.Folders {
			if folder.MoID == inner.Moid && (folder.Name != "q" || folder.Parent != s.found.Folder) {
				t.Errorf("the folder: %+v", folder)
			}
		}
		if status := s.open("POST", "/v1/folders/group-none/move", map[string]any{"folder": outer.Moid}, nil); status != http.StatusNotFound {
			t.Errorf("a folder that is not there: %d", status)
		}
	})
}

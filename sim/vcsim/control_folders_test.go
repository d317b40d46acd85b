package main

import (
	"net/http"
	"testing"

	"github.com/vmware/govmomi/vim25/mo"

	"layercake.invalid/sim/vcsim/vim"
)

// What is in a folder leaves the views of where the folder was, and comes back with it under its ids.
func TestAMovedFolderTakesItsVMsAlong(t *testing.T) {
	both(t, func(t *testing.T, vijson bool) {
		s := newSite(t)
		c := s.login(vijson)
		var inner, outer struct{ Moid string }
		s.open("POST", "/v1/folders", map[string]any{"parent": s.Found.Folder, "name": "p"}, &inner)
		vm := s.create(c, "a").Reference()
		s.open("POST", "/v1/vms/"+vm.Value+"/move", map[string]any{"folder": inner.Moid}, nil)
		s.open("GET", "/v1/inventory", nil, nil)
		w := s.watchVMs(c)
		w.until("the VM", func() bool { return w.named("a") != nil })

		top := s.Registry.Get(vim.Ref{Type: "Folder", Value: s.Found.Folder}).(mo.Entity).Entity().Parent
		s.open("POST", "/v1/folders", map[string]any{"parent": top.Value, "name": "elsewhere"}, &outer)
		s.answers(http.StatusNoContent, "POST", "/v1/folders/"+inner.Moid+"/move", map[string]any{"folder": outer.Moid}, nil)
		w.until("its leave", func() bool { return w.named("a") == nil })
		s.open("POST", "/v1/folders/"+inner.Moid+"/rename", map[string]any{"name": "q"}, nil)
		s.open("POST", "/v1/folders/"+inner.Moid+"/move", map[string]any{"folder": s.Found.Folder}, nil)
		w.until("its return", func() bool { return w.seen[vm] != nil })
		for _, folder := range s.inventory().Folders {
			if folder.MoID == inner.Moid && (folder.Name != "q" || folder.Parent != s.Found.Folder) {
				t.Errorf("the folder: %+v", folder)
			}
		}
		s.answers(http.StatusNotFound, "POST", "/v1/folders/group-none/move", map[string]any{"folder": outer.Moid}, nil)
	})
}

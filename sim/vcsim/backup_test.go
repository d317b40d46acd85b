package main

import (
	"net/http"
	"testing"
	"time"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/backup"
	"layercake.invalid/sim/vcsim/control"
	"layercake.invalid/sim/vcsim/vim"
)

type inventorySeen struct {
	VMs     []control.InventoryVM   `json:"vms"`
	Folders []control.InventoryNode `json:"folders"`
}

func (s *site) inventory() (seen inventorySeen) {
	s.t.Helper()
	s.open("GET", "/v1/inventory", nil, &seen)
	return seen
}

func (i inventorySeen) vm(name string) *control.InventoryVM {
	for _, vm := range i.VMs {
		if vm.Name == name {
			return &vm
		}
	}
	return nil
}

func (i inventorySeen) folder(name string) *control.InventoryNode {
	for _, folder := range i.Folders {
		if folder.Name == name {
			return &folder
		}
	}
	return nil
}

func (s *site) ordered(path string, body any, into any) {
	s.t.Helper()
	if status := s.open("POST", path, body, into); status/100 != 2 {
		s.t.Fatalf("%s: %d", path, status)
	}
}

// What was made since the backup is found on its hosts under other ids, what was destroyed since is there and has no host.
func TestARestoredVCenterKnowsWhatItsBackupKnew(t *testing.T) {
	both(t, func(t *testing.T, vijson bool) {
		s := newSite(t)
		c := s.login(vijson)
		var old, younger struct{ Moid string }
		s.ordered("/v1/folders", map[string]any{"parent": s.Found.Folder, "name": "old"}, &old)
		kept, doomed := s.create(c, "kept"), s.create(c, "doomed")
		s.answers(http.StatusConflict, "POST", "/v1/restore", nil, nil) // there is no backup
		s.ordered("/v1/backup", nil, nil)

		s.ordered("/v1/folders", map[string]any{"parent": s.Found.Folder, "name": "younger"}, &younger)
		s.ordered("/v1/vms/"+kept.Reference().Value+"/move", map[string]any{"folder": younger.Moid}, nil)
		s.ordered("/v1/folders/"+old.Moid+"/rename", map[string]any{"name": "renamed"}, nil)
		s.done(doomed.Destroy(s.ctx))
		made := []*object.VirtualMachine{s.create(c, "a"), s.create(c, "b")}
		s.done(made[0].PowerOn(s.ctx))
		uuid := s.inventory().vm("a").InstanceUUID
		s.ordered("/v1/restore", nil, nil)

		if _, err := methods.GetCurrentTime(s.ctx, c); err == nil {
			t.Error("the session is not gone")
		}
		c = s.login(vijson)
		seen := s.inventory()
		if seen.vm("a") != nil || seen.folder("younger") != nil || seen.folder("renamed") != nil || seen.folder("old").MoID != old.Moid {
			t.Errorf("after the restore: %+v", seen)
		}
		if vm := seen.vm("kept"); vm.Folder != s.Found.Folder || vm.ConnectionState != "connected" {
			t.Errorf("the VM that was there all the time: %+v", vm)
		}
		if vm := seen.vm("doomed"); vm.MoID != doomed.Reference().Value || vm.ConnectionState != "orphaned" {
			t.Errorf("the VM that was destroyed since: %+v", vm)
		}
		failsWith[*types.InvalidState](t, s.ended(object.NewVirtualMachine(c.Client, doomed.Reference()).PowerOn(s.ctx)))

		s.ordered("/v1/hosts/reconnect", nil, nil)
		seen = s.inventory()
		found := seen.vm("a")
		if found == nil || found.MoID != made[1].Reference().Value || found.InstanceUUID != uuid || found.PowerState != "poweredOn" ||
			found.Folder != seen.folder(backup.DiscoveredFolder).MoID || found.Pool == s.Found.ResourcePool {
			t.Errorf("the VM that was made since: %+v", found)
		}
		vm := object.NewVirtualMachine(c.Client, vim.Ref{Type: "VirtualMachine", Value: found.MoID})
		s.done(vm.PowerOff(s.ctx))
		s.done(vm.Destroy(s.ctx))
		must(t, object.NewVirtualMachine(c.Client, doomed.Reference()).Unregister(s.ctx))
		if seen = s.inventory(); seen.vm("a") != nil || seen.vm("doomed") != nil || len(seen.VMs) != 2 {
			t.Errorf("in the end: %+v", seen.VMs)
		}
		s.create(c, "c")
	})
}

// Events keep the time that the clock showed when they were noted, and a restored vCenter knows none since its backup.
func TestTheClockIsSetAndHistoryForgotten(t *testing.T) {
	both(t, func(t *testing.T, vijson bool) {
		s := newSite(t)
		c := s.login(vijson)
		removed := func(begin *time.Time) (names []string) {
			t.Helper()
			filter := types.EventFilterSpec{EventTypeId: []string{"VmRemovedEvent"}}
			if begin != nil {
				filter.Time = &types.EventFilterSpecByTime{BeginTime: begin}
			}
			res, err := methods.QueryEvents(s.ctx, c, &types.QueryEvents{This: *c.ServiceContent.EventManager, Filter: filter})
			must(t, err)
			for _, e := range res.Returnval {
				names = append(names, e.GetEvent().Vm.Name)
			}
			return names
		}
		remove := func(name string) { s.done(s.create(c, name).Destroy(s.ctx)) }
		remove("before")
		s.open("PUT", "/v1/clock", map[string]any{"offsetSeconds": -3600}, nil)
		now, err := methods.GetCurrentTime(s.ctx, c)
		must(t, err)
		if ago := time.Since(*now); ago < 59*time.Minute || ago > 61*time.Minute {
			t.Errorf("the clock shows %v, %v ago", now, ago)
		}
		s.ordered("/v1/backup", nil, nil)
		remove("an hour ago")
		recent := time.Now().Add(-30 * time.Minute)
		if names := removed(nil); len(names) != 2 {
			t.Errorf("all: %v", names)
		}
		if names := removed(&recent); len(names) != 1 || names[0] != "before" {
			t.Errorf("since half an hour: %v", names)
		}
		s.ordered("/v1/restore", nil, nil)
		c = s.login(vijson)
		if names := removed(nil); len(names) != 1 || names[0] != "before" {
			t.Errorf("after the restore: %v", names)
		}
	})
}

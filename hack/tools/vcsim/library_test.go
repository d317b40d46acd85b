package main

import (
	"io"
	"net/url"
	"strings"
	"testing"

	"github.com/vmware/govmomi/vapi/library"
	"github.com/vmware/govmomi/vapi/rest"
	"github.com/vmware/govmomi/vapi/vcenter"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
)

func TestALibraryItemIsReadAndDeployed(t *testing.T) {
	s := newSite(t)
	c := s.login(false)
	r := rest.NewClient(c.Client)
	must(t, r.Login(s.ctx, url.UserPassword(testCredentials.Username, testCredentials.Password)))
	m := library.NewManager(r)

	items, err := m.GetLibraryItems(s.ctx, s.found.Libraries["layercake"])
	must(t, err)
	if len(items) != 1 || items[0].Name != "ob-1" || items[0].Type != "ovf" {
		t.Fatalf("items: %+v", items)
	}

	session, err := m.CreateLibraryItemDownloadSession(s.ctx, library.Session{LibraryItemID: items[0].ID})
	must(t, err)
	file, err := m.PrepareLibraryItemDownloadSessionFile(s.ctx, session, "ob-1.ovf")
	must(t, err)
	source, err := url.Parse(file.DownloadEndpoint.URI)
	must(t, err)
	download := soap.DefaultDownload
	download.Headers = map[string]string{tokenHeader: r.SessionID()}
	body, _, err := r.Download(s.ctx, source, &download)
	must(t, err)
	text, err := io.ReadAll(body)
	must(t, err)
	if !strings.Contains(string(text), `ovf:value="v1.36.3+ob-1"`) {
		t.Fatalf("descriptor without its property: %s", text)
	}

	before := s.counters.snapshot()["byWire"].(map[string]map[string]int)[wireSOAP]
	vm, err := vcenter.NewManager(r).DeployLibraryItem(s.ctx, items[0].ID, vcenter.Deploy{
		DeploymentSpec: vcenter.DeploymentSpec{Name: "golden", AcceptAllEULA: true, DefaultDatastoreID: s.found.Datastores["ds0"]},
		Target:         vcenter.Target{ResourcePoolID: s.found.ResourcePool, FolderID: s.found.Folder},
	})
	must(t, err)
	after := s.counters.snapshot()["byWire"].(map[string]map[string]int)[wireSOAP]
	if len(before) != len(after) {
		t.Errorf("the library's own calls were counted: %v, then %v", before, after)
	}

	var props mo.VirtualMachine
	must(t, c.RetrieveOne(s.ctx, *vm, []string{"name", "config.hardware"}, &props))
	if props.Name != "golden" || props.Config.Hardware.MemoryMB != 2048 || props.Config.Hardware.NumCPU != 2 {
		t.Fatalf("deployed VM: %+v", props)
	}
}

func TestRESTNeedsASession(t *testing.T) {
	s := newSite(t)
	c := s.login(false)
	r := rest.NewClient(c.Client)
	if _, err := library.NewManager(r).ListLibraries(s.ctx); err == nil {
		t.Fatal("listed without a session")
	}
	if err := r.Login(s.ctx, url.UserPassword(testCredentials.Username, "wrong")); err == nil {
		t.Fatal("logged in with a wrong password")
	}
}

package main

import (
	"fmt"
	"io"
	"net/url"
	"strings"
	"testing"

	"github.com/vmware/govmomi/vapi/library"
	"github.com/vmware/govmomi/vapi/rest"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"

	"layercake.invalid/sim/vcsim/spec"
	"layercake.invalid/sim/vcsim/traffic"
	"layercake.invalid/sim/vcsim/vim"
	"layercake.invalid/sim/vcsim/wire"
)

func TestALibraryItemIsReadAndDeployed(t *testing.T) {
	s := newSite(t)
	c, r := s.login(false), s.automation()
	m := library.NewManager(r)

	items, err := m.GetLibraryItems(s.ctx, s.Found.Libraries["layercake"])
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
	download.Headers = map[string]string{wire.TokenHeader: r.SessionID()}
	body, _, err := r.Download(s.ctx, source, &download)
	must(t, err)
	text, err := io.ReadAll(body)
	must(t, err)
	if !strings.Contains(string(text), `ovf:value="v1.36.3+ob-1"`) {
		t.Fatalf("descriptor without its property: %s", text)
	}

	before := s.Counters.Snapshot()["byWire"].(map[string]map[string]int)[traffic.SOAP]
	vm := s.deploy(r, items[0].ID, "golden")
	after := s.Counters.Snapshot()["byWire"].(map[string]map[string]int)[traffic.SOAP]
	if len(before) != len(after) {
		t.Errorf("the library's own calls were counted: %v, then %v", before, after)
	}

	var props mo.VirtualMachine
	must(t, c.RetrieveOne(s.ctx, vm, []string{"name", "config.hardware"}, &props))
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

// The form that vCenter has had since 7.0, which the library lacks.
func TestLibrariesInTheFormOfAPI(t *testing.T) {
	s := newSite(t)
	token := s.token()
	get := s.asking(token)
	var ids []string
	var id string
	var item, file map[string]any
	get("POST", "/api/content/library?action=find", `{"name":"layercake"}`, 200, &ids)
	get("POST", "/api/content/library?action=find", `{"name":"nope"}`, 200, &ids)
	if len(ids) != 0 {
		t.Errorf("found %v", ids)
	}
	get("GET", "/api/content/library/"+s.Found.Libraries["layercake"], "", 200, &item)
	get("GET", "/api/content/library/00000000-0000-0000-0000-000000000000", "", 404, &item)
	if item["error_type"] != "NOT_FOUND" {
		t.Errorf("%v", item)
	}
	get("GET", "/api/content/library/item?library_id="+s.Found.Libraries["layercake"], "", 200, &ids)
	get("GET", "/api/content/library/item/"+ids[0], "", 200, &item)
	if item["name"] != "ob-1" {
		t.Errorf("item %v", item)
	}
	get("POST", "/api/content/library/item/download-session", `{"library_item_id":"`+ids[0]+`"}`, 201, &id)
	get("POST", "/api/content/library/item/download-session/"+id+"/file?action=prepare", `{"file_name":"ob-1.ovf"}`, 200, &file)
	if file["status"] != "PREPARED" {
		t.Errorf("file %v", file)
	}
	get("DELETE", "/api/content/library/item/download-session/"+id, "", 204, nil)

	deploy := fmt.Sprintf(`{"deployment_spec":{"name":"golden","annotation":"note","accept_all_EULA":true,"storage_profile_id":"gold",
		"network_mappings":{"nic0":%q},"additional_parameters":[{"type":"ExtraConfigParams","extra_configs":[{"key":"k","value":"v"}]}]},
		"target":{"resource_pool_id":%q,"folder_id":%q}}`, s.Found.Networks["workload"], s.Found.ResourcePool, s.Found.Folder)
	var done struct {
		Succeeded bool
		Resource  struct{ ID string } `json:"resource_id"`
		Error     map[string]any
	}
	get("POST", "/api/vcenter/ovf/library-item/"+ids[0]+"?action=deploy", deploy, 200, &done)
	if !done.Succeeded {
		t.Fatalf("%+v", done)
	}
	vm := s.props(s.login(true), vim.Ref{Type: "VirtualMachine", Value: done.Resource.ID})
	if vm.Config.Annotation != "note" || extraConfig(vm)["k"] != "v" || vm.Network[0].Value != s.Found.Networks["workload"] {
		t.Errorf("deployed %+v", vm)
	}
	get("POST", "/api/vcenter/ovf/library-item/"+ids[0]+"?action=deploy", deploy, 200, &done)
	if !strings.Contains(fmt.Sprint(done.Error), "already exists") {
		t.Errorf("twice: %+v", done)
	}
}

func TestADeploymentWithAMemberOfAnotherReleaseIsRefused(t *testing.T) {
	for member, other := range map[string]string{"accept_all_EULA": "accept_all_eula", "accept_all_eula": "accept_all_EULA"} {
		s := newSite(t, func(o *spec.Options) { o.Spec.EULAMember = member })
		call := s.asking(s.token())
		var ids []string
		call("GET", "/api/content/library/item?library_id="+s.Found.Libraries["layercake"], "", 200, &ids)
		deploy := func(path, member string, status int, answer any) {
			body := fmt.Sprintf(`{"deployment_spec":{"name":"golden",%q:true},"target":{"resource_pool_id":%q,"folder_id":%q}}`,
				member, s.Found.ResourcePool, s.Found.Folder)
			call("POST", path, body, status, answer)
		}
		var refusal map[string]any
		deploy("/api/vcenter/ovf/library-item/"+ids[0]+"?action=deploy", other, 400, &refusal)
		if refusal["error_type"] != "UNEXPECTED_INPUT" {
			t.Errorf("/api: %v", refusal)
		}
		deploy("/rest/com/vmware/vcenter/ovf/library-item/id:"+ids[0]+"?~action=deploy", other, 400, &refusal)
		if refusal["type"] != "com.vmware.vapi.std.errors.unexpected_input" {
			t.Errorf("/rest: %v", refusal)
		}
		var done struct{ Succeeded bool }
		deploy("/api/vcenter/ovf/library-item/"+ids[0]+"?action=deploy", member, 200, &done)
		if !done.Succeeded {
			t.Errorf("%s: %v", member, done)
		}
	}
}

func TestASubscribedItemIsFetchedWhenAsked(t *testing.T) {
	s := newSite(t, func(o *spec.Options) {
		o.Spec.Libraries = append(o.Spec.Libraries, spec.Library{Name: "subscribed", Subscribes: "layercake"})
	})
	token := s.token()
	call := s.asking(token)
	var ids []string
	call("GET", "/api/content/library/item?library_id="+s.Found.Libraries["subscribed"], "", 200, &ids)
	if len(ids) != 1 {
		t.Fatalf("items: %v", ids)
	}
	cached := func() bool {
		var item library.Item
		call("GET", "/api/content/library/item/"+ids[0], "", 200, &item)
		return item.Cached
	}
	if cached() {
		t.Fatal("the item's disks are here before anybody asked")
	}
	call("POST", "/api/content/library/subscribed-item/"+ids[0]+"?action=sync", `{"force_sync_content":true}`, 204, nil)
	if !cached() {
		t.Fatal("the item's disks are not here")
	}
}

func TestTheURLOfADownloadNeedsNoLogin(t *testing.T) {
	s := newSite(t)
	ask := s.asking(s.token())
	var ids []string
	var session string
	var file struct {
		Endpoint struct{ URI string } `json:"download_endpoint"`
	}
	ask("GET", "/api/content/library/item?library_id="+s.Found.Libraries["layercake"], "", 200, &ids)
	ask("POST", "/api/content/library/item/download-session", `{"library_item_id":"`+ids[0]+`"}`, 201, &session)
	ask("POST", "/api/content/library/item/download-session/"+session+"/file?action=prepare", `{"file_name":"ob-1.ovf"}`, 200, &file)
	_, path, _ := strings.Cut(file.Endpoint.URI, s.endpoint().Host)
	other := strings.Replace(path, session, "00000000-0000-0000-0000-000000000000", 1)
	for _, c := range []struct {
		method, path string
		want         int
	}{{"GET", path, 200}, {"GET", other, 404}, {"PUT", path, 401}, {"GET", "/api/content/library/item/" + ids[0], 401}} {
		if status, _, text := s.raw(c.method, c.path, "", ""); status != c.want {
			t.Errorf("%s %s: %d instead of %d: %s", c.method, c.path, status, c.want, text)
		}
	}
}

package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"unicode"

	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/wire"
)

func TestObjectsAreWhole(t *testing.T) {
	s := newSite(t)
	c := s.login(false)
	vm := s.props(c, s.create(c, "whole").Reference())
	if vm.Runtime.FaultToleranceState != types.VirtualMachineFaultToleranceStateNotConfigured ||
		vm.Summary.Runtime.RecordReplayState != types.VirtualMachineRecordReplayStateInactive ||
		vm.GuestHeartbeatStatus != types.ManagedEntityStatusGray {
		t.Errorf("a VM without its states: %+v", vm.Runtime)
	}
	var host mo.HostSystem
	must(t, c.RetrieveOne(s.ctx, *vm.Runtime.Host, []string{"config", "configManager", "datastoreBrowser", "datastore"}, &host))
	if host.Config.Host != host.Self || host.ConfigManager.DatastoreSystem == nil || host.ConfigManager.PowerSystem != nil {
		t.Errorf("a host that names objects which are not there: %v, %+v", host.Config.Host, host.ConfigManager)
	}
	var browser mo.HostDatastoreBrowser
	must(t, c.RetrieveOne(s.ctx, host.DatastoreBrowser, []string{"datastore"}, &browser))
	if len(browser.Datastore) != len(host.Datastore) {
		t.Errorf("the host's browser: %v, its datastores: %v", browser.Datastore, host.Datastore)
	}
	var pool mo.ResourcePool
	must(t, c.RetrieveOne(s.ctx, *s.pool(), []string{"parent"}, &pool))
	must(t, c.RetrieveOne(s.ctx, *pool.Parent, []string{"config", "summary"}, &pool))
	if *pool.Config.Entity != pool.Self || *pool.Summary.GetResourcePoolSummary().Config.Entity != pool.Self {
		t.Errorf("the root pool's configuration is of %v", pool.Config.Entity)
	}
}

func TestWhatIsUnsetIsLeftOut(t *testing.T) {
	s := newSite(t)
	for call, wanted := range map[string]string{
		`<Fetch xmlns="urn:vim25"><_this type="Folder">` + s.Found.Folder + `</_this><prop>alarmActionsEnabled</prop></Fetch>`: `<FetchResponse xmlns="urn:vim25"></FetchResponse>`,
		`<Fetch xmlns="urn:vim25"><_this type="Folder">` + s.Found.Folder + `</_this><prop>name</prop></Fetch>`:                `xsd:string">layercake</returnval>`,
		`<RetrieveProperties xmlns="urn:vim25"><_this type="PropertyCollector">propertyCollector</_this><specSet><propSet><type>Folder</type>` +
			`<pathSet>alarmActionsEnabled</pathSet></propSet><objectSet><obj type="Folder">` + s.Found.Folder + `</obj></objectSet></specSet></RetrieveProperties>`: `</obj></returnval>`,
	} {
		status, answer := s.envelope(s.token(), call)
		if status != http.StatusOK || !strings.Contains(answer, wanted) {
			t.Errorf("%s: %d %s", call, status, answer)
		}
	}
}

func TestAnEmptyArrayIsAnArray(t *testing.T) {
	data, err := wire.EncodeValue(types.DynamicProperty{Name: "guest.net", Val: types.ArrayOfGuestNicInfo{}})
	must(t, err)
	if !strings.Contains(string(data), `"_value":[]`) {
		t.Errorf("%s", data)
	}
}

func TestModelsOfTheAutomationAPIAreVCenters(t *testing.T) {
	s := newSite(t)
	ask := s.asking(s.token())
	var model map[string]any
	ask(http.MethodGet, "/api/content/library/"+s.Found.Libraries["layercake"], "", http.StatusOK, &model)
	for name := range model {
		if unicode.IsUpper(rune(name[0])) {
			t.Errorf("a library's model has a member %s", name)
		}
	}
	var category, tag string
	ask(http.MethodPost, "/api/cis/tagging/category", `{"name":"c","description":"","cardinality":"SINGLE","associable_types":[]}`, http.StatusCreated, &category)
	ask(http.MethodPost, "/api/cis/tagging/tag", `{"name":"t","description":"","category_id":"`+category+`"}`, http.StatusCreated, &tag)
	for path, members := range map[string][]string{
		"category/" + category: {"description", "used_by", "associable_types", "cardinality"},
		"tag/" + tag:           {"description", "used_by", "category_id"},
	} {
		var model map[string]json.RawMessage
		ask(http.MethodGet, "/api/cis/tagging/"+path, "", http.StatusOK, &model)
		for _, member := range members {
			if _, there := model[member]; !there {
				t.Errorf("%s without %s: %s", path, member, model)
			}
		}
	}
}

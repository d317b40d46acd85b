package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/vmware/govmomi/find"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/wire"
)

// raw sends one VI/JSON request as it stands and gives status, headers and body.
func (s *site) raw(method, path, token, body string) (int, http.Header, string) {
	s.t.Helper()
	return s.rawWith(nil, method, path, token, body)
}

// rawWith makes a request with more headers.
func (s *site) rawWith(headers http.Header, method, path, token, body string) (int, http.Header, string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.ctx, method, "https://"+s.endpoint().Host+path, strings.NewReader(body))
	must(s.t, err)
	for name, values := range headers {
		r.Header[name] = values
	}
	if token != "" {
		r.Header.Set(wire.TokenHeader, token)
	}
	res, err := s.https().Do(r)
	must(s.t, err)
	defer func() { _ = res.Body.Close() }()
	content, err := io.ReadAll(res.Body)
	must(s.t, err)
	return res.StatusCode, res.Header, string(bytes.TrimSpace(content))
}

// asking returns a function that makes a request, insists on its status and decodes its answer into what it is given.
func (s *site) asking(token string) func(method, path, body string, want int, into any) {
	return func(method, path, body string, want int, into any) {
		s.t.Helper()
		status, _, text := s.raw(method, path, token, body)
		if status != want {
			s.t.Fatalf("%s %s: %d %s", method, path, status, text)
		}
		if into != nil {
			must(s.t, json.Unmarshal([]byte(text), into))
		}
	}
}

func (s *site) token() (token string) {
	s.t.Helper()
	login := &http.Request{Header: http.Header{}}
	login.SetBasicAuth(testCredentials.Username, testCredentials.Password)
	status, _, text := s.rawWith(login.Header, http.MethodPost, "/api/session", "", "")
	if status != http.StatusCreated {
		s.t.Fatalf("login: %d %s", status, text)
	}
	must(s.t, json.Unmarshal([]byte(text), &token))
	return token
}

const json8 = "/sdk/vim25/8.0.3.0"

func TestGovmomiSpeaksJSON(t *testing.T) {
	s := newSite(t)
	c := s.login(true)
	finder := find.NewFinder(c.Client)
	dc, err := finder.DefaultDatacenter(s.ctx)
	must(t, err)
	finder.SetDatacenter(dc)
	hosts, err := finder.HostSystemList(s.ctx, "*/*")
	must(t, err)
	if len(hosts) != 4 {
		t.Fatalf("hosts: %v", hosts)
	}
	golden, snapshot := s.golden(c)
	made, err := s.clone(c, golden, "clone", s.linked(snapshot, func(spec *types.VirtualMachineCloneSpec) {
		spec.PowerOn, spec.Config.NumCPUs = true, 4
		spec.Config.ExtraConfig = []types.BaseOptionValue{option("guestinfo.metadata", "x")}
	}))
	must(t, err)
	var vm mo.VirtualMachine
	must(t, c.RetrieveOne(s.ctx, made, []string{"runtime.powerState", "config.hardware.numCPU"}, &vm))
	if vm.Runtime.PowerState != types.VirtualMachinePowerStatePoweredOn || vm.Config.Hardware.NumCPU != 4 {
		t.Fatalf("clone: %+v", vm)
	}
	s.done(object.NewVirtualMachine(c.Client, made).PowerOff(s.ctx))
	must(t, c.Logout(s.ctx))
}

func TestJSONSurface(t *testing.T) {
	s := newSite(t)
	token := s.token()
	if status, _, body := s.raw("POST", "/api/vcenter/system?action=hello", "",
		`{"api_releases":["9.1.0.0","8.0.3.0","8.0.2.0"]}`); status != 200 || body != `{"api_release":"8.0.3.0"}` {
		t.Errorf("hello: %d %s", status, body)
	}
	cases := []struct {
		name, method, path, token, body string
		status                          int
		want                            string
	}{
		{"content needs no session", "GET", json8 + "/ServiceInstance/ServiceInstance/content", "", "", 200, `{"_typeName":"ServiceContent"`},
		{"time is bare", "POST", json8 + "/ServiceInstance/ServiceInstance/CurrentTime", token, "", 200, `"20`},
		{"a call needs a session", "POST", json8 + "/ServiceInstance/ServiceInstance/CurrentTime", "", "", 500, `{"_typeName":"NotAuthenticated"`},
		{"a property needs a session", "GET", json8 + "/Folder/group-d1/name", "", "", 500, `{"_typeName":"NotAuthenticated"`},
		{"a retrieval needs a session", "POST", json8 + "/PropertyCollector/propertyCollector/RetrievePropertiesEx", "", `{"specSet":[{"propSet":[{"type":"Folder","pathSet":["name"]}],"objectSet":[{"obj":{"type":"Folder","value":"group-d1"}}]}],"options":{}}`, 500, `{"_typeName":"NotAuthenticated"`},
		{"scalar property", "GET", json8 + "/Datacenter/" + s.Found.Datacenter + "/name", token, "", 200, `"dc0"`},
		{"array property", "GET", json8 + "/ClusterComputeResource/" + s.Found.Cluster + "/host", token, "", 200, `[{"_typeName":"ManagedObjectReference"`},
		{"unset property", "GET", json8 + "/Folder/group-d1/parent", token, "", 204, ``},
		{"no such property", "GET", json8 + "/Folder/group-d1/nope", token, "", 500, `{"_typeName":"InvalidProperty"`},
		{"no such object", "GET", json8 + "/Folder/group-99/name", token, "", 500, `{"_typeName":"ManagedObjectNotFound"`},
		{"no such release", "GET", "/sdk/vim25/9.0.0.0/Folder/group-d1/name", token, "", 404, ``},
		{"no such method", "POST", json8 + "/Folder/group-d1/Nope", token, "", 404, ``},
		{"wrong password", "POST", json8 + "/SessionManager/SessionManager/Login", "", `{"userName":"a","password":"b"}`, 500, `{"_typeName":"InvalidLogin","faultstring":"Login failure","faultMessage":[]`},
		{"void", "POST", json8 + "/PropertyCollector/propertyCollector/CancelWaitForUpdates", token, "", 204, ``},
		{"null", "POST", json8 + "/SearchIndex/SearchIndex/FindByUuid", token, `{"uuid":"4210c8a7-0000-0000-0000-000000000000","vmSearch":true}`, 204, ``},
	}
	for _, c := range cases {
		status, _, body := s.raw(c.method, c.path, c.token, c.body)
		if status != c.status || !strings.HasPrefix(body, c.want) {
			t.Errorf("%s: %d %s", c.name, status, body)
		}
	}
}

func TestJSONIsStrict(t *testing.T) {
	s := newSite(t)
	token := s.token()
	view := json8 + "/ViewManager/ViewManager/CreateContainerView"
	container := `"container":{"_typeName":"ManagedObjectReference","type":"Folder","value":"group-d1"}`
	option := func(value string) string {
		return `{"spec":{"_typeName":"VirtualMachineConfigSpec","extraConfig":[{"_typeName":"OptionValue","key":"k","value":` + value + `}]}}`
	}
	reconfig := json8 + "/VirtualMachine/vm-0/ReconfigVM_Task"
	cases := []struct {
		name, path, body, fault string
	}{
		{"right", view, `{"_typeName":"CreateContainerViewRequestType",` + container + `,"recursive":true}`, ""},
		{"type name at the end", view, `{` + container + `,"recursive":true,"_typeName":"CreateContainerViewRequestType"}`, ""},
		{"misspelt member", view, `{` + container + `,"recursiv":true}`, "InvalidRequest"},
		{"wrong case", view, `{` + container + `,"Recursive":true}`, "InvalidRequest"},
		{"missing member", view, `{` + container + `}`, "InvalidRequest"},
		{"wrong root type", view, `{"_typeName":"CreateListViewRequestType",` + container + `,"recursive":true}`, "InvalidRequest"},
		{"wrong inner type", view, `{"container":{"_typeName":"OptionValue","type":"Folder","value":"group-d1"},"recursive":true}`, "InvalidRequest"},
		{"string for boolean", view, `{` + container + `,"recursive":"true"}`, "InvalidRequest"},
		{"array for object", view, `{"container":[],"recursive":true}`, "InvalidRequest"},
		{"no JSON", view, `{`, "InvalidRequest"},
		{"unboxed any", reconfig, option(`"x"`), "InvalidRequest"},
		{"boxed any", reconfig, option(`{"_typeName":"string","_value":"x"}`), "ManagedObjectNotFound"},
		{"boxed any of the wrong kind", reconfig, option(`{"_typeName":"int","_value":"x"}`), "InvalidRequest"},
		{"base type without a name", reconfig, `{"spec":{"deviceChange":[{"device":{}}]}}`, "InvalidRequest"},
		{"base type that does not fit", reconfig, `{"spec":{"deviceChange":[{"_typeName":"OptionValue","key":"a","value":null}]}}`, "InvalidRequest"},
		{"unknown type", reconfig, `{"spec":{"deviceChange":[{"_typeName":"Nope"}]}}`, "InvalidRequest"},
		{"number out of range", reconfig, `{"spec":{"numCPUs":5000000000}}`, "InvalidRequest"},
		{"unknown enum", json8 + "/VirtualMachine/vm-0/PowerOnVM_Task", `{"host":{"type":"HostSystem"}}`, "InvalidRequest"},
	}
	for _, c := range cases {
		status, _, body := s.raw("POST", c.path, token, c.body)
		if c.fault == "" && status != 200 || c.fault != "" && !strings.HasPrefix(body, `{"_typeName":"`+c.fault+`"`) {
			t.Errorf("%s: %d %s", c.name, status, body)
		}
	}
}

// One token opens VI/JSON, SOAP and REST, and one logout closes them all.
func TestOneSessionForEverything(t *testing.T) {
	s := newSite(t)
	token := s.token()
	library := "/rest/com/vmware/content/library"
	now := json8 + "/ServiceInstance/ServiceInstance/CurrentTime"
	s.asking(token)("GET", library, "", 200, nil)
	_, header, _ := s.raw("POST", json8+"/SessionManager/SessionManager/Login", "",
		`{"userName":"`+testCredentials.Username+`","password":"`+testCredentials.Password+`"}`)
	s.asking(header.Get(wire.TokenHeader))("GET", library, "", 200, nil)
	s.asking(token)("DELETE", "/api/session", "", 204, nil)
	s.asking(token)("POST", now, "", 500, nil)
	s.asking(token)("GET", library, "", 401, nil)
}

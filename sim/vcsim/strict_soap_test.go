package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"layercake.invalid/sim/vcsim/wire"
)

// envelope sends one call as it stands and gives the status and the answer.
func (s *site) envelope(cookie, call string) (int, string) {
	s.t.Helper()
	body := `<S:Envelope xmlns:S="http://schemas.xmlsoap.org/soap/envelope/" xmlns:xsd="http://www.w3.org/2001/XMLSchema"` +
		` xmlns:xsi="` + wire.InstanceSpace + `"><S:Body>` + call + `</S:Body></S:Envelope>`
	status, _, answer := s.rawWith(http.Header{"Cookie": {"vmware_soap_session=" + cookie}}, http.MethodPost, "/sdk", "", body)
	return status, answer
}

func TestSOAPIsStrict(t *testing.T) {
	s := newSite(t)
	token := s.token()
	view := func(inside string) string {
		return `<CreateContainerView xmlns="urn:vim25"><_this type="ViewManager">ViewManager</_this>` + inside + `</CreateContainerView>`
	}
	reconfig := func(inside string) string {
		return `<ReconfigVM_Task xmlns="urn:vim25"><_this type="VirtualMachine">vm-0</_this><spec>` + inside + `</spec></ReconfigVM_Task>`
	}
	device := func(typ, inside string) string {
		return reconfig(`<deviceChange xsi:type="VirtualDeviceConfigSpec"><operation>add</operation><device xsi:type="` + typ + `">` + inside + `</device></deviceChange>`)
	}
	container := `<container type="Folder">group-d1</container>`
	cases := []struct{ name, call, want string }{
		{"right", view(container + `<type>VirtualMachine</type><type>Folder</type><recursive>true</recursive>`), `<returnval type="ContainerView"`},
		{"wrong order", view(`<recursive>true</recursive>` + container), `CreateContainerView: in CreateContainerView the element &#34;container&#34; belongs before &#34;recursive&#34;`},
		{"misspelt", view(container + `<recursiv>true</recursiv>`), `CreateContainerView has no element &#34;recursiv&#34;`},
		{"missing", view(container), `needs the element &#34;recursive&#34;`},
		{"twice", view(container + container + `<recursive>true</recursive>`), `has one element &#34;container&#34; only`},
		{"no boolean", view(container + `<recursive>yes</recursive>`), `&#34;yes&#34; is no boolean`},
		{"no type of the reference", view(`<container>group-d1</container><recursive>true</recursive>`), `a reference has an attribute type`},
		{"no namespace", strings.Replace(view(container+`<recursive>true</recursive>`), ` xmlns="urn:vim25"`, "", 1), `must be in the namespace urn:vim25`},
		{"any", reconfig(`<extraConfig xsi:type="OptionValue"><key>k</key><value xsi:type="xsd:string">v</value></extraConfig>`), `ManagedObjectNotFound`},
		{"any without a type", reconfig(`<extraConfig><key>k</key><value>v</value></extraConfig>`), `extraConfig.value: xsi:type is missing`},
		{"any of the wrong kind", reconfig(`<extraConfig><key>k</key><value xsi:type="xsd:int">v</value></extraConfig>`), `&#34;v&#34; is no int32`},
		{"base type first", device("VirtualVmxnet3", `<key>-1</key><addressType>manual</addressType><macAddress>a</macAddress>`), `ManagedObjectNotFound`},
		{"base type last", device("VirtualVmxnet3", `<addressType>manual</addressType><key>-1</key>`), `in VirtualVmxnet3 the element &#34;key&#34; belongs before &#34;addressType&#34;`},
		{"type that does not fit", device("OptionValue", ``), `OptionValue does not fit where VirtualDevice is declared`},
		{"unknown type", device("Nope", ``), `&#34;Nope&#34; is no type`},
		{"unknown enum", reconfig(`<deviceChange><operation>shrink</operation><device xsi:type="VirtualE1000"><key>1</key></device></deviceChange>`), `&#34;shrink&#34; is no VirtualDeviceConfigSpecOperation`},
		{"wrong type of a concrete field", reconfig(`<files xsi:type="OptionValue"></files>`), `xsi:type OptionValue where VirtualMachineFileInfo is declared`},
		{"number out of range", reconfig(`<numCPUs>5000000000</numCPUs>`), `is no int32`},
		{"no XML", `<a>`, `the body is no XML`},
	}
	for _, c := range cases {
		status, body := s.envelope(token, c.call)
		if !strings.Contains(body, c.want) {
			t.Errorf("%s: %d %s", c.name, status, body)
		}
		refused := !strings.Contains(c.want, "returnval") && !strings.Contains(c.want, "NotFound")
		if refused != strings.Contains(body, `xsi:type="InvalidRequest"`) {
			t.Errorf("%s: %d %s", c.name, status, body)
		}
	}
}

// What the client's own tests have recorded is in the order of the WSDL, with every field that it can say.
func TestTheClientsRequestsAreInOrder(t *testing.T) {
	recorded, err := filepath.Glob("../../vsphere/src/tests/snapshots/*_soap.snap")
	must(t, err)
	calls := 0
	for _, file := range recorded {
		content, err := os.ReadFile(file)
		must(t, err)
		for _, line := range strings.Split(string(content), "\n") {
			if !strings.HasPrefix(line, "<") {
				continue
			}
			calls++
			method, err := wire.ReadMethod([]byte(`<S:Envelope xmlns:S="http://schemas.xmlsoap.org/soap/envelope/" xmlns:xsi="` +
				wire.InstanceSpace + `"><S:Body>` + line + `</S:Body></S:Envelope>`))
			must(t, err)
			if err := wire.StrictMethod(method); err != nil {
				t.Errorf("%s: %v", filepath.Base(file), err)
			}
		}
	}
	if calls < 15 {
		t.Errorf("%d calls in %v", calls, recorded)
	}
}

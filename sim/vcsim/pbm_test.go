package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/vmware/govmomi/pbm"
	pbmtypes "github.com/vmware/govmomi/pbm/types"

	"layercake.invalid/sim/vcsim/spec"
)

func TestPoliciesOverSOAP(t *testing.T) {
	s := newSite(t, func(o *spec.Options) {
		o.Spec.Datastores = []string{"ds0", "ds1"}
		o.Spec.StoragePolicies = []spec.StoragePolicy{{Name: "Gold", Datastores: []string{"ds1"}}}
	})
	c := s.login(false)
	policies, err := pbm.NewClient(s.ctx, c.Client)
	must(t, err)
	id, err := policies.ProfileIDByName(s.ctx, "Gold")
	must(t, err)
	if id != s.Found.StoragePolicies["Gold"] {
		t.Errorf("Gold is %s, the ready line has %s", id, s.Found.StoragePolicies["Gold"])
	}
	requirement := &pbmtypes.PbmPlacementCapabilityProfileRequirement{ProfileId: pbmtypes.PbmProfileId{UniqueId: id}}
	result, err := policies.CheckRequirements(s.ctx, nil, nil, []pbmtypes.BasePbmPlacementRequirement{requirement})
	must(t, err)
	fitting := result.CompatibleDatastores()
	if len(fitting) != 1 || fitting[0].HubId != s.Found.Datastores["ds1"] || len(result.NonCompatibleDatastores()) != 1 {
		t.Errorf("fitting are %v", fitting)
	}
	must(t, c.Logout(s.ctx))
	if _, err := policies.ProfileIDByName(s.ctx, "Gold"); err == nil {
		t.Error("policies are listed without a session")
	}
}

// A method is there from the version on with which it came, and over VI/JSON policies are there from 8.0 U3 on.
func TestPoliciesAreOfVersions(t *testing.T) {
	for _, release := range []string{"8.0.2.0", "8.0.3.0"} {
		s := newSite(t, func(o *spec.Options) { o.Spec.APIRelease = release })
		token := s.token()
		ask := func(version, method string) (int, string) {
			header := http.Header{"Soapaction": {`"urn:pbm/` + version + `"`}}
			status, _, text := s.rawWith(header, "POST", "/pbm", "", `<Envelope xmlns="http://schemas.xmlsoap.org/soap/envelope/">`+
				`<Header><vcSessionCookie>`+token+`</vcSessionCookie></Header><Body><`+method+` xmlns="urn:pbm">`+
				`<_this type="PbmPlacementSolver">placementSolver</_this></`+method+`></Body></Envelope>`)
			return status, text
		}
		if status, text := ask("2.0", "PbmCheckRequirements"); status != 500 || !strings.Contains(text, `xsi:type="MethodNotFound"`) {
			t.Errorf("2.0: %d %s", status, text)
		}
		if status, text := ask("6.5", "PbmCheckRequirements"); status != 200 {
			t.Errorf("6.5: %d %s", status, text)
		}
		if status, text := ask("9.1.0.0", "PbmCheckRequirements"); status != 500 || !strings.Contains(text, "Unsupported version") {
			t.Errorf("9.1: %d %s", status, text)
		}
		want := 200
		if release == "8.0.2.0" {
			want = 404
		}
		const path = "/pbm/PbmServiceInstance/ServiceInstance/PbmRetrieveServiceContent"
		if status, _, text := s.raw("POST", "/sdk/vim25/"+release+path, token, ""); status != want {
			t.Errorf("VI/JSON %s: %d %s", release, status, text)
		}
	}
}

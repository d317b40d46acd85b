package main

import (
	"testing"

	"github.com/vmware/govmomi/pbm"
	pbmtypes "github.com/vmware/govmomi/pbm/types"
)

func TestPoliciesOverSOAP(t *testing.T) {
	s := newSite(t, func(o *Options) {
		o.Spec.Datastores = []string{"ds0", "ds1"}
		o.Spec.StoragePolicies = []StoragePolicy{{Name: "Gold", Datastores: []string{"ds1"}}}
	})
	c := s.login(false)
	policies, err := pbm.NewClient(s.ctx, c.Client)
	must(t, err)
	id, err := policies.ProfileIDByName(s.ctx, "Gold")
	must(t, err)
	if id != s.found.StoragePolicies["Gold"] {
		t.Errorf("Gold is %s, the ready line has %s", id, s.found.StoragePolicies["Gold"])
	}
	requirement := &pbmtypes.PbmPlacementCapabilityProfileRequirement{ProfileId: pbmtypes.PbmProfileId{UniqueId: id}}
	result, err := policies.CheckRequirements(s.ctx, nil, nil, []pbmtypes.BasePbmPlacementRequirement{requirement})
	must(t, err)
	fitting := result.CompatibleDatastores()
	if len(fitting) != 1 || fitting[0].HubId != s.found.Datastores["ds1"] || len(result.NonCompatibleDatastores()) != 1 {
		t.Errorf("fitting are %v", fitting)
	}
	must(t, c.Logout(s.ctx))
	if _, err := policies.ProfileIDByName(s.ctx, "Gold"); err == nil {
		t.Error("policies are listed without a session")
	}
}

package main

import (
	"encoding/json"
	"testing"

	"github.com/containernetworking/plugins/plugins/ipam/host-local/backend/allocator"
)

const environment = "FLANNEL_NETWORK=10.244.0.0/16\nFLANNEL_SUBNET=10.244.3.1/24\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n"

func TestADelegateHasTheNodesSubnet(t *testing.T) {
	subnet, err := readSubnet(environment)
	if err != nil {
		t.Fatal(err)
	}
	config, err := readConfig([]byte(`{"cniVersion":"1.0.0","name":"cbr0","type":"flannel","delegate":{"hairpinMode":true,"isDefaultGateway":true}}`))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(delegate(config, subnet))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"cniVersion":"1.0.0","hairpinMode":true,"ipMasq":false,"ipam":{"ranges":[[{"subnet":"10.244.3.0/24"}]],` +
		`"routes":[{"dst":"10.244.0.0/16"}],"type":"host-local"},"isDefaultGateway":true,"isGateway":true,"mtu":1450,` +
		`"name":"cbr0","type":"bridge"}`
	if string(text) != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
	if _, _, err := allocator.LoadIPAMConfig(text, ""); err != nil {
		t.Errorf("host-local does not take it: %v", err)
	}
}

func TestASubnetThatIsIncompleteIsRefused(t *testing.T) {
	for _, text := range []string{"", "FLANNEL_SUBNET=10.0.0.1/24\n", "FLANNEL_SUBNET=10.0.0.1/24\nFLANNEL_MTU=x\n", "FLANNEL_SUBNET=10.0.0.1\nFLANNEL_MTU=1450\n"} {
		if _, err := readSubnet(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

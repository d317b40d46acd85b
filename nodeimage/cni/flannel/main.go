// Command flannel is the CNI plugin that gives a pod an address of the node's subnet, as flanneld has written it down: it calls
// the plugin bridge with it. A network configuration of type flannel means the same to it as to flannel's own plugin.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/version"
)

// Where flanneld writes the node's subnet, and where the configurations that pods were given are kept until they go.
const (
	subnetFile = "/run/flannel/subnet.env"
	stateDir   = "/var/lib/cni/flannel"
)

// errUnavailable is the specification's code of a plugin that can take no pod for now.
const errUnavailable = 50

// Config is a network configuration of type flannel.
type Config struct {
	types.NetConf
	SubnetFile    string         `json:"subnetFile"`
	DataDir       string         `json:"dataDir"`
	Delegate      map[string]any `json:"delegate"`
	RuntimeConfig map[string]any `json:"runtimeConfig,omitempty"`
}

// Subnet is what flanneld says of the node.
type Subnet struct {
	// Networks are the pods' of all nodes; Subnets this node's.
	Networks, Subnets []string
	MTU               uint
	// Masquerade is whether flanneld hides pods' addresses from the outside, so that the bridge must not.
	Masquerade bool
}

func main() {
	skel.PluginMainFuncs(skel.CNIFuncs{Add: add, Del: del, Check: check, Status: status}, version.All, "CNI plugin flannel")
}

func readConfig(text []byte) (Config, error) {
	config := Config{SubnetFile: subnetFile, DataDir: stateDir}
	if err := json.Unmarshal(text, &config); err != nil {
		return config, fmt.Errorf("network configuration: %w", err)
	}
	return config, nil
}

func add(args *skel.CmdArgs) error {
	config, err := readConfig(args.StdinData)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(config.SubnetFile)
	if err != nil {
		return fmt.Errorf("flanneld has not written this node's subnet: %w", err)
	}
	subnet, err := readSubnet(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", config.SubnetFile, err)
	}
	delegate, err := json.Marshal(delegate(config, subnet))
	if err != nil {
		return err
	}
	// Kept before the call: what was begun can then be undone, whatever happens.
	if err := os.MkdirAll(config.DataDir, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(config.DataDir, args.ContainerID), delegate, 0o600); err != nil {
		return err
	}
	result, err := invoke.DelegateAdd(context.Background(), kind(delegate), delegate, nil)
	if err != nil {
		return err
	}
	return types.PrintResult(result, config.CNIVersion)
}

// del undoes an add, also one that came to nothing: then there is nothing to do.
func del(args *skel.CmdArgs) error {
	config, err := readConfig(args.StdinData)
	if err != nil {
		return err
	}
	kept := filepath.Join(config.DataDir, args.ContainerID)
	delegate, err := os.ReadFile(kept)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := invoke.DelegateDel(context.Background(), kind(delegate), delegate, nil); err != nil {
		return err
	}
	return os.Remove(kept)
}

func check(args *skel.CmdArgs) error {
	config, err := readConfig(args.StdinData)
	if err != nil {
		return err
	}
	delegate, err := os.ReadFile(filepath.Join(config.DataDir, args.ContainerID))
	if err != nil {
		return err
	}
	var document map[string]any
	if err := json.Unmarshal(delegate, &document); err != nil {
		return err
	}
	document["prevResult"] = config.RawPrevResult
	if delegate, err = json.Marshal(document); err != nil {
		return err
	}
	return invoke.DelegateCheck(context.Background(), kind(delegate), delegate, nil)
}

// status says whether pods can be added.
func status(args *skel.CmdArgs) error {
	config, err := readConfig(args.StdinData)
	if err != nil {
		return err
	}
	if _, err := os.Stat(config.SubnetFile); err != nil {
		return types.NewError(errUnavailable, "flanneld has not written this node's subnet", err.Error())
	}
	return nil
}

// kind is the plugin that a configuration is for.
func kind(delegate []byte) string {
	var config types.PluginConf
	_ = json.Unmarshal(delegate, &config)
	return config.Type
}

// delegate is the configuration for the plugin that does the work: the user's, with what is missing.
func delegate(config Config, subnet Subnet) map[string]any {
	delegate := map[string]any{}
	for key, value := range config.Delegate {
		delegate[key] = value
	}
	set := func(key string, value any) {
		if _, ok := delegate[key]; !ok {
			delegate[key] = value
		}
	}
	delegate["name"], delegate["cniVersion"] = config.Name, config.CNIVersion
	if delegate["cniVersion"] == "" {
		delegate["cniVersion"] = current.ImplementedSpecVersion
	}
	set("type", "bridge")
	set("mtu", subnet.MTU)
	if delegate["type"] == "bridge" {
		set("isGateway", true)
		set("ipMasq", !subnet.Masquerade)
	}
	if config.RuntimeConfig != nil {
		delegate["runtimeConfig"] = config.RuntimeConfig
	}
	ranges, routes := [][]map[string]string{}, []map[string]string{}
	for _, own := range subnet.Subnets {
		ranges = append(ranges, []map[string]string{{"subnet": own}})
	}
	for _, network := range subnet.Networks {
		routes = append(routes, map[string]string{"dst": network})
	}
	delegate["ipam"] = map[string]any{"type": "host-local", "ranges": ranges, "routes": routes}
	return delegate
}

// readSubnet reads the variables that flanneld writes.
func readSubnet(text string) (Subnet, error) {
	var subnet Subnet
	for _, line := range strings.Split(text, "\n") {
		name, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if !ok {
			continue
		}
		switch name {
		case "FLANNEL_NETWORK", "FLANNEL_IPV6_NETWORK":
			subnet.Networks = append(subnet.Networks, strings.Split(value, ",")...)
		case "FLANNEL_SUBNET", "FLANNEL_IPV6_SUBNET":
			// flanneld writes the node's own address in it, and host-local takes only that of the network.
			_, network, err := net.ParseCIDR(value)
			if err != nil {
				return subnet, fmt.Errorf("%s: %w", name, err)
			}
			subnet.Subnets = append(subnet.Subnets, network.String())
		case "FLANNEL_MTU":
			mtu, err := strconv.ParseUint(value, 10, 32)
			if err != nil {
				return subnet, fmt.Errorf("FLANNEL_MTU=%s is no number", value)
			}
			subnet.MTU = uint(mtu)
		case "FLANNEL_IPMASQ":
			subnet.Masquerade = value == "true"
		}
	}
	if len(subnet.Subnets) == 0 || subnet.MTU == 0 {
		return subnet, errors.New("it has no FLANNEL_SUBNET or no FLANNEL_MTU")
	}
	return subnet, nil
}

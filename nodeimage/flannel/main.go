// Command flanneld runs flannel on a node of a cluster: it takes the node's subnet from the API server, makes the network of pods
// and says in a file what it is. It is flannel's own code with the backends that a node of vSphere has use for; the flags are
// flannel's.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/flannel-io/flannel/pkg/backend"
	_ "github.com/flannel-io/flannel/pkg/backend/hostgw"
	_ "github.com/flannel-io/flannel/pkg/backend/vxlan"
	_ "github.com/flannel-io/flannel/pkg/backend/wireguard"
	"github.com/flannel-io/flannel/pkg/ip"
	"github.com/flannel-io/flannel/pkg/ipmatch"
	"github.com/flannel-io/flannel/pkg/subnet"
	"github.com/flannel-io/flannel/pkg/subnet/kube"
	"github.com/flannel-io/flannel/pkg/trafficmngr"
	"github.com/flannel-io/flannel/pkg/trafficmngr/iptables"
	"github.com/flannel-io/flannel/pkg/trafficmngr/nftables"
	"github.com/flannel-io/flannel/pkg/version"
	"k8s.io/klog/v2"
)

// names are those of a flag that is given several times.
type names []string

func (n *names) String() string { return fmt.Sprint(*n) }

func (n *names) Set(name string) error {
	*n = append(*n, name)
	return nil
}

type options struct {
	kubeManager, masquerade, version, forward, networkUnavailable bool
	apiURL, kubeconfig, prefix, networkConfig, subnetFile         string
	publicIP, healthAddress                                       string
	healthPort, resyncSeconds                                     int
	interfaces                                                    names
}

func readOptions() options {
	var o options
	flag.BoolVar(&o.kubeManager, "kube-subnet-mgr", true, "take subnets from the API server; there is no other way")
	flag.BoolVar(&o.masquerade, "ip-masq", false, "hide pods' addresses from what is outside of their network")
	flag.BoolVar(&o.version, "version", false, "print the version and exit")
	flag.BoolVar(&o.forward, "iptables-forward-rules", true, "let pods' packets be forwarded")
	flag.BoolVar(&o.networkUnavailable, "set-node-network-unavailable", true, "set the node's condition NetworkUnavailable")
	flag.StringVar(&o.apiURL, "kube-api-url", "", "the API server; by default the one that a pod is given")
	flag.StringVar(&o.kubeconfig, "kubeconfig-file", "", "a kubeconfig; by default a pod's service account")
	flag.StringVar(&o.prefix, "kube-annotation-prefix", "flannel.alpha.coreos.com", "prefix of the node's annotations")
	flag.StringVar(&o.networkConfig, "net-config-path", "/etc/kube-flannel/net-conf.json", "the configuration of the network")
	flag.StringVar(&o.subnetFile, "subnet-file", "/run/flannel/subnet.env", "where the node's subnet is written")
	flag.StringVar(&o.publicIP, "public-ip", "", "the node's address for other nodes")
	flag.StringVar(&o.healthAddress, "healthz-ip", "127.0.0.1", "where health is served")
	flag.IntVar(&o.healthPort, "healthz-port", 0, "the port at which health is served; 0 for none")
	flag.IntVar(&o.resyncSeconds, "iptables-resync", 5, "seconds after which rules are written again")
	flag.Var(&o.interfaces, "iface", "the node's interface, by name or address; the first that is there counts")
	flag.Parse()
	return o
}

func main() {
	klog.InitFlags(nil)
	o := readOptions()
	if o.version {
		fmt.Println(version.Version)
		return
	}
	if !o.kubeManager {
		klog.Exit("--kube-subnet-mgr=false: this flanneld takes subnets from the API server only")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil && !errors.Is(err, context.Canceled) {
		klog.Exit(err)
	}
}

func run(ctx context.Context, o options) error {
	var ready atomic.Bool
	if o.healthPort > 0 {
		go serveHealth(net.JoinHostPort(o.healthAddress, strconv.Itoa(o.healthPort)), &ready)
	}
	manager, err := kube.NewSubnetManager(ctx, o.apiURL, o.kubeconfig, o.prefix, o.networkConfig, o.networkUnavailable)
	if err != nil {
		return fmt.Errorf("cannot take a subnet from the API server: %w", err)
	}
	config, err := manager.GetNetworkConfig(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", o.networkConfig, err)
	}
	external, err := findInterface(ctx, o, manager, config)
	if err != nil {
		return fmt.Errorf("cannot find the node's interface: %w", err)
	}
	chosen, err := backend.NewManager(ctx, manager, external).GetBackend(config.BackendType)
	if err != nil {
		return fmt.Errorf("%s: backend %s: %w; there are vxlan, host-gw and wireguard", o.networkConfig, config.BackendType, err)
	}
	var running sync.WaitGroup
	network, err := chosen.RegisterNetwork(ctx, &running, config)
	if err != nil {
		return fmt.Errorf("cannot make the network: %w", err)
	}
	if err := writeRules(ctx, o, config, network); err != nil {
		return err
	}
	lease := network.Lease()
	if err := manager.HandleSubnetFile(o.subnetFile, config, o.masquerade, lease.Subnet, lease.IPv6Subnet, network.MTU()); err != nil {
		return fmt.Errorf("cannot write %s: %w", o.subnetFile, err)
	}
	ready.Store(true)
	klog.Infof("the node's subnet %s is in %s", lease.Subnet, o.subnetFile)
	running.Go(func() { network.Run(ctx) })
	err = manager.CompleteLease(ctx, lease, &running)
	running.Wait()
	return err
}

// findInterface returns the interface by which the node reaches others.
func findInterface(ctx context.Context, o options, manager subnet.Manager, config *subnet.Config) (*backend.ExternalInterface, error) {
	family, err := ipmatch.GetIPFamily(config.EnableIPv4, config.EnableIPv6)
	if err != nil {
		return nil, err
	}
	public := ipmatch.PublicIPOpts{PublicIP: o.publicIP}
	if stored, stored6 := manager.GetStoredPublicIP(ctx); stored != "" || stored6 != "" {
		public = ipmatch.PublicIPOpts{PublicIP: stored, PublicIPv6: stored6}
	}
	candidates := o.interfaces
	if len(candidates) == 0 {
		// An address stands for the interface that has it, nothing for the one of the default route.
		candidates = names{public.PublicIP}
	}
	var failures []error
	for _, name := range candidates {
		found, err := ipmatch.LookupExtIface(name, "", "", family, public)
		if err == nil && found != nil {
			return found, nil
		}
		failures = append(failures, fmt.Errorf("%q: %w", name, err))
	}
	return nil, errors.Join(failures...)
}

// writeRules takes away the rules of the way that is not used, and keeps those of the other.
func writeRules(ctx context.Context, o options, config *subnet.Config, network backend.Network) error {
	var used, unused trafficmngr.TrafficManager = &iptables.IPTablesManager{}, &nftables.NFTablesManager{}
	if config.EnableNFTables {
		used, unused = unused, used
	}
	if err := unused.CleanUp(ctx); err != nil {
		return fmt.Errorf("cannot remove old rules: %w", err)
	}
	if err := used.Init(ctx); err != nil {
		return fmt.Errorf("cannot write rules: %w", err)
	}
	if o.masquerade {
		// The node's subnet never changes while it lives, so there is no former one whose rules would have to go.
		none, none6 := ip.IP4Net{}, ip.IP6Net{IP: &ip.IP6{}}
		err := used.SetupAndEnsureMasqRules(ctx, config.Network, none, none, config.IPv6Network, none6, none6, network.Lease(),
			o.resyncSeconds, false)
		if err != nil {
			return fmt.Errorf("cannot write rules that hide pods' addresses: %w", err)
		}
	}
	if o.forward {
		used.SetupAndEnsureForwardRules(ctx, config.Network, config.IPv6Network, o.resyncSeconds)
	}
	return nil
}

// serveHealth answers at /healthz as long as the program runs, at /readyz once pods can be added.
func serveHealth(address string, ready *atomic.Bool) {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/readyz", func(answer http.ResponseWriter, _ *http.Request) {
		if !ready.Load() {
			answer.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	server := http.Server{Addr: address, Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	klog.Exit(server.ListenAndServe())
}

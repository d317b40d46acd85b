package inventory

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/vim"
)

// findLoaded gives the morefs of an inventory that was loaded: those of the cluster with the most connected hosts, and of its
// datacenter.
func (b *builder) findLoaded() error {
	registry := b.svc.Context.Map
	clusters := registry.All("ClusterComputeResource")
	if len(clusters) == 0 {
		return fmt.Errorf("the loaded inventory has no cluster")
	}
	hosts := func(c mo.Entity) int { return connected(registry, c.(*simulator.ClusterComputeResource).Host) }
	largest := slices.MaxFunc(clusters, func(a, c mo.Entity) int {
		return cmp.Or(cmp.Compare(hosts(a), hosts(c)), cmp.Compare(c.Reference().Value, a.Reference().Value))
	})
	cluster := largest.(*simulator.ClusterComputeResource)
	b.found.Cluster = cluster.Self.Value
	b.found.ResourcePool = cluster.ResourcePool.Value
	dc, err := datacenterOf(registry, cluster)
	if err != nil {
		return err
	}
	b.found.Datacenter, b.found.Folder = dc.Self.Value, dc.VmFolder.Value
	b.found.Datastores = names(registry, cluster.Datastore)
	b.found.Networks = names(registry, cluster.Network)
	return nil
}

// connected counts the hosts that vCenter reaches.
func connected(registry *simulator.Registry, hosts []vim.Ref) int {
	count := 0
	for _, ref := range hosts {
		host, ok := registry.Get(ref).(*simulator.HostSystem)
		if ok && host.Summary.Runtime != nil && host.Summary.Runtime.ConnectionState == types.HostSystemConnectionStateConnected {
			count++
		}
	}
	return count
}

func datacenterOf(registry *simulator.Registry, entity mo.Entity) (*simulator.Datacenter, error) {
	for at := entity.Entity().Parent; at != nil; {
		parent, ok := registry.Get(*at).(mo.Entity)
		if !ok {
			break
		}
		if dc, ok := parent.(*simulator.Datacenter); ok {
			return dc, nil
		}
		at = parent.Entity().Parent
	}
	return nil, fmt.Errorf("%s is in no datacenter", entity.Reference().Value)
}

// names gives the objects by their names.
func names(registry *simulator.Registry, refs []vim.Ref) map[string]string {
	byName := map[string]string{}
	for _, ref := range refs {
		if name := nameOf(registry.Get(ref)); name != "" {
			byName[name] = ref.Value
		}
	}
	return byName
}

// nameOf gives an object's name; a network has one of its own beside that of an entity.
func nameOf(o mo.Reference) string {
	switch o := o.(type) {
	case *simulator.DistributedVirtualPortgroup:
		return o.Name
	case *mo.OpaqueNetwork:
		return o.Name
	case *mo.Network:
		return o.Name
	case mo.Entity:
		return o.Entity().Name
	}
	return ""
}

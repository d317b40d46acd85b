package inventory

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/core"
	"layercake.invalid/sim/vcsim/spec"
)

// builder makes the inventory through the library's own in-process client, before anybody else can connect.
type builder struct {
	ctx    context.Context
	spec   spec.Spec
	dir    string // the datastores' files
	svc    *simulator.Service
	client *vim25.Client
	hosts  []*object.HostSystem
	dvs    *object.DistributedVirtualSwitch
	dc     *object.Datacenter
	found  spec.Found
}

// Build makes what the spec describes, and gives the morefs.
//
// An inventory that was loaded is there already.
func Build(ctx context.Context, svc *simulator.Service, wanted spec.Spec, dir string, loaded bool) (spec.Found, error) {
	client, err := vim25.NewClient(ctx, svc)
	if err != nil {
		return spec.Found{}, err
	}
	b := &builder{ctx: ctx, spec: wanted, dir: dir, svc: svc, client: client}
	b.found = spec.Found{Datastores: map[string]string{}, Networks: map[string]string{}, Segments: map[string]string{}, Libraries: map[string]string{}}
	steps := []func() error{b.datacenter, b.networks, b.cluster, b.datastores}
	if loaded {
		steps = []func() error{b.findLoaded}
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return spec.Found{}, fmt.Errorf("inventory: %w", err)
		}
	}
	b.makeWhole()
	return b.found, nil
}

// makeWhole completes what the library has made.
func (b *builder) makeWhole() {
	registry := b.svc.Context.Map
	for _, host := range b.hosts {
		core.MakeHostWhole(registry, registry.Get(host.Reference()).(*simulator.HostSystem))
	}
	for _, pool := range registry.All("ResourcePool") {
		core.MakeWhole(pool)
	}
	core.MakeWhole(registry.Get(*b.client.ServiceContent.SnmpSystem))
}

func (b *builder) datacenter() error {
	dc, err := object.NewRootFolder(b.client).CreateDatacenter(b.ctx, Escaped(b.spec.Datacenter))
	if err != nil {
		return err
	}
	b.dc = dc
	b.found.Datacenter = dc.Reference().Value
	folders, err := dc.Folders(b.ctx)
	if err != nil {
		return err
	}
	folder, err := folders.VmFolder.CreateFolder(b.ctx, b.spec.Folder)
	if err != nil {
		return err
	}
	b.found.Folder = folder.Reference().Value
	return nil
}

// tagUplinks marks the port group of the switch's uplinks, as vCenter does. The library makes it by a task of its own, which may end after
// the one that made the switch.
func (b *builder) tagUplinks() error {
	registry := b.svc.Context.Map
	dvs := registry.Get(b.dvs.Reference()).(*simulator.DistributedVirtualSwitch)
	for range 2000 {
		var tagged bool
		b.svc.Context.WithLock(dvs, func() {
			for _, uplinks := range dvs.Portgroup {
				if group, ok := registry.Get(uplinks).(*simulator.DistributedVirtualPortgroup); ok {
					group.Tag = []types.Tag{{Key: "SYSTEM/DVS.UPLINKPG"}}
					tagged = true
				}
			}
		})
		if tagged {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
	return errors.New("the switch has no port group of uplinks")
}

// networks makes one distributed switch with a port group per name; the stock network is there already. One whose name
// begins with NSX- the library makes a segment of NSX.
func (b *builder) networks() error {
	folders, err := b.dc.Folders(b.ctx)
	if err != nil {
		return err
	}
	config := &types.VMwareDVSConfigSpec{}
	config.Name = "dvs0"
	task, err := folders.NetworkFolder.CreateDVS(b.ctx, types.DVSCreateSpec{ConfigSpec: config})
	if err != nil {
		return err
	}
	info, err := task.WaitForResult(b.ctx)
	if err != nil {
		return err
	}
	b.dvs = object.NewDistributedVirtualSwitch(b.client, info.Result.(types.ManagedObjectReference))

	registry := b.svc.Context.Map
	if err := b.tagUplinks(); err != nil {
		return err
	}
	for _, name := range b.spec.PortGroups {
		if name != spec.StockNetwork {
			task, err := b.dvs.AddPortgroup(b.ctx, []types.DVPortgroupConfigSpec{{
				Name:     Escaped(name),
				Type:     string(types.DistributedVirtualPortgroupPortgroupTypeEarlyBinding),
				NumPorts: 128,
			}})
			if err == nil {
				err = task.Wait(b.ctx)
			}
			if err != nil {
				return fmt.Errorf("port group %s: %w", name, err)
			}
		}
		folder := registry.Get(folders.NetworkFolder.Reference()).(*simulator.Folder)
		entity := registry.FindByName(Escaped(name), folder.ChildEntity)
		if entity == nil {
			return fmt.Errorf("network %s: not found", name)
		}
		b.found.Networks[name] = entity.Reference().Value
		if group, ok := entity.(*simulator.DistributedVirtualPortgroup); ok && group.Config.LogicalSwitchUuid != "" {
			b.found.Segments[name] = group.Config.LogicalSwitchUuid
		}
	}
	return nil
}

func (b *builder) cluster() error {
	folders, err := b.dc.Folders(b.ctx)
	if err != nil {
		return err
	}
	cluster, err := folders.HostFolder.CreateCluster(b.ctx, b.spec.Cluster, types.ClusterConfigSpecEx{
		DrsConfig: &types.ClusterDrsConfigInfo{
			Enabled: types.NewBool(true), DefaultVmBehavior: types.DrsBehaviorFullyAutomated,
		},
	})
	if err != nil {
		return err
	}
	b.found.Cluster = cluster.Reference().Value
	for n := range b.spec.Hosts {
		if err := b.host(cluster, fmt.Sprintf("host%d.%s", n, b.spec.Cluster)); err != nil {
			return err
		}
	}
	root, err := cluster.ResourcePool(b.ctx)
	if err != nil {
		return err
	}
	pool, err := root.Create(b.ctx, b.spec.ResourcePool, types.DefaultResourceConfigSpec())
	if err != nil {
		return err
	}
	b.found.ResourcePool = pool.Reference().Value
	return nil
}

func (b *builder) host(cluster *object.ClusterComputeResource, name string) error {
	task, err := cluster.AddHost(b.ctx, types.HostConnectSpec{HostName: name}, true, nil, nil)
	if err != nil {
		return err
	}
	info, err := task.WaitForResult(b.ctx)
	if err != nil {
		return err
	}
	host := object.NewHostSystem(b.client, info.Result.(types.ManagedObjectReference))
	b.hosts = append(b.hosts, host)
	b.resize(b.svc.Context.Map.Get(host.Reference()).(*simulator.HostSystem))

	task, err = b.dvs.Reconfigure(b.ctx, &types.DVSConfigSpec{
		Host: []types.DistributedVirtualSwitchHostMemberConfigSpec{{
			Operation: string(types.ConfigSpecOperationAdd),
			Host:      host.Reference(),
		}},
	})
	if err != nil {
		return err
	}
	return task.Wait(b.ctx)
}

// resize gives the host the capacity of the spec, which admission of reservations counts with.
func (b *builder) resize(host *simulator.HostSystem) {
	const cores = 32
	bytes := b.spec.HostMemoryMiB << 20
	summary := *host.Summary.Hardware
	summary.MemorySize = bytes
	summary.NumCpuCores, summary.NumCpuThreads = cores, 2*cores
	summary.CpuMhz = int32(b.spec.HostCPUMHz / cores)
	host.Summary.Hardware = &summary
	hardware := *host.Hardware
	hardware.MemorySize = bytes
	host.Hardware = &hardware
}

func (b *builder) datastores() error {
	for _, name := range b.spec.Datastores {
		dir := filepath.Join(b.dir, "datastore-"+name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
		for _, host := range b.hosts {
			system, err := host.ConfigManager().DatastoreSystem(b.ctx)
			if err != nil {
				return err
			}
			if _, err := system.CreateLocalDatastore(b.ctx, name, dir); err != nil {
				return fmt.Errorf("datastore %s: %w", name, err)
			}
		}
	}
	var dc mo.Datacenter
	if err := b.dc.Properties(b.ctx, b.dc.Reference(), []string{"datastore"}, &dc); err != nil {
		return err
	}
	for _, name := range b.spec.Datastores {
		entity := b.svc.Context.Map.FindByName(name, dc.Datastore)
		if entity == nil {
			return fmt.Errorf("datastore %s: not found", name)
		}
		b.found.Datastores[name] = entity.Reference().Value
	}
	return nil
}

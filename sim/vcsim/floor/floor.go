// Package floor creates VMs with as few calls as possible, as the measure for VM operators.
package floor

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/url"
	"sync"
	"syscall"
	"time"

	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/session"
	"github.com/vmware/govmomi/vapi/library"
	"github.com/vmware/govmomi/vapi/rest"
	"github.com/vmware/govmomi/vapi/vcenter"
	"github.com/vmware/govmomi/view"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/spec"
	"layercake.invalid/sim/vcsim/traffic"
	"layercake.invalid/sim/vcsim/vim"
)

// UserdataBytes is the size of a node's userdata when it is compressed.
const UserdataBytes = 6 * 1024

// climb is the least that it takes to make VMs: one clone each, and one stream that tells of them.
type climb struct {
	url, credentials, folder, pool, library, item, network, prefix, wire string

	count, parallel int

	client   *vim25.Client
	golden   vim.Ref
	snapshot vim.Ref
	adapter  types.BaseVirtualDevice
	userdata string
}

// Run makes VMs in a vCenter as cheaply as can be and tells what it took. It is what every VM operator is measured by.
//
// It prints "ready" when the golden template is there, and begins with the first line on in.
func Run(args []string, in io.Reader, out io.Writer) error {
	c, err := parseClimb(args)
	if err != nil {
		return err
	}
	ctx := context.Background()
	if err := c.prepare(ctx); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out, "ready"); err != nil {
		return err
	}
	if _, err := bufio.NewReader(in).ReadString('\n'); err != nil {
		return err
	}
	began, used := time.Now(), cpuTime()
	if err := c.run(ctx); err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(map[string]any{
		"seconds": time.Since(began).Seconds(),
		"cpuMs":   float64((cpuTime() - used).Microseconds()) / 1000,
	})
}

func parseClimb(args []string) (*climb, error) {
	c := &climb{}
	flags := flag.NewFlagSet("vcsim floor", flag.ContinueOnError)
	flags.StringVar(&c.url, "url", "", "URL of the SDK")
	flags.StringVar(&c.credentials, "credentials", "", "JSON `file` with username, password and controlToken, mode 0600")
	flags.StringVar(&c.folder, "folder", "", "MoID of the folder of the VMs")
	flags.StringVar(&c.pool, "pool", "", "MoID of their resource pool")
	flags.StringVar(&c.library, "library", "", "id of the content library")
	flags.StringVar(&c.item, "item", "", "name of the image in it")
	flags.StringVar(&c.network, "network", "", "name of their port group")
	flags.StringVar(&c.prefix, "prefix", "floor", "what their names begin with")
	flags.StringVar(&c.wire, "wire", traffic.VIJSON, "vijson or soap")
	flags.IntVar(&c.count, "count", 200, "how many")
	flags.IntVar(&c.parallel, "parallel", 20, "clones in flight")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if c.wire != traffic.VIJSON && c.wire != traffic.SOAP {
		return nil, fmt.Errorf("--wire %q: must be vijson or soap", c.wire)
	}
	data := make([]byte, UserdataBytes)
	_, _ = rand.Read(data)
	c.userdata = base64.StdEncoding.EncodeToString(data)
	return c, nil
}

// prepare logs in and deploys the image as a golden template with a snapshot.
func (c *climb) prepare(ctx context.Context) error {
	who, err := spec.ReadCredentials(c.credentials)
	if err != nil {
		return err
	}
	u, err := url.Parse(c.url)
	if err != nil {
		return err
	}
	wire := soap.NewClient(u, true)
	if c.client, err = vim25.NewClient(ctx, wire); err != nil {
		return err
	}
	if c.wire == traffic.VIJSON {
		c.client.UseJSON(true)
		c.client.Version = c.client.ServiceContent.About.ApiVersion
	}
	user := url.UserPassword(who.Username, who.Password)
	if err := session.NewManager(c.client).Login(ctx, user); err != nil {
		return err
	}
	if c.golden, err = c.deploy(ctx, user); err != nil {
		return err
	}
	return c.describeGolden(ctx)
}

func (c *climb) deploy(ctx context.Context, user *url.Userinfo) (vim.Ref, error) {
	api := rest.NewClient(c.client)
	if err := api.Login(ctx, user); err != nil {
		return vim.Ref{}, err
	}
	found, err := library.NewManager(api).FindLibraryItems(ctx, library.FindItem{LibraryID: c.library, Name: c.item})
	if err != nil {
		return vim.Ref{}, err
	}
	if len(found) != 1 {
		return vim.Ref{}, fmt.Errorf("library %s has %d items %q", c.library, len(found), c.item)
	}
	made, err := vcenter.NewManager(api).DeployLibraryItem(ctx, found[0], vcenter.Deploy{
		DeploymentSpec: vcenter.DeploymentSpec{Name: c.prefix + "-golden", AcceptAllEULA: true},
		Target:         vcenter.Target{ResourcePoolID: c.pool, FolderID: c.folder},
	})
	if err != nil {
		return vim.Ref{}, err
	}
	task, err := methods.CreateSnapshot_Task(ctx, c.client, &types.CreateSnapshot_Task{This: *made, Name: "golden"})
	if err != nil {
		return vim.Ref{}, err
	}
	result, err := waitFor(ctx, c.client, task.Returnval)
	if err != nil {
		return vim.Ref{}, err
	}
	c.snapshot = result.(vim.Ref)
	return *made, nil
}

func waitFor(ctx context.Context, client *vim25.Client, task vim.Ref) (types.AnyType, error) {
	var t mo.Task
	for {
		if err := property.DefaultCollector(client).RetrieveOne(ctx, task, []string{"info"}, &t); err != nil {
			return nil, err
		}
		switch t.Info.State {
		case types.TaskInfoStateSuccess:
			return t.Info.Result, nil
		case types.TaskInfoStateError:
			return nil, fmt.Errorf("%s: %s", t.Info.DescriptionId, t.Info.Error.LocalizedMessage)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// describeGolden notes the template's adapter, to be plugged into the port group in every clone.
func (c *climb) describeGolden(ctx context.Context) error {
	var vm mo.VirtualMachine
	if err := property.DefaultCollector(c.client).RetrieveOne(ctx, c.golden, []string{"config.hardware.device"}, &vm); err != nil {
		return err
	}
	for _, device := range vm.Config.Hardware.Device {
		if adapter, ok := device.(types.BaseVirtualEthernetCard); ok {
			adapter.GetVirtualEthernetCard().Backing = &types.VirtualEthernetCardNetworkBackingInfo{
				VirtualDeviceDeviceBackingInfo: types.VirtualDeviceDeviceBackingInfo{DeviceName: c.network},
			}
			c.adapter = device
			return nil
		}
	}
	return fmt.Errorf("the image has no network adapter")
}

// run clones and watches until every VM has an address.
func (c *climb) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	numbers := make(chan int)
	for range c.parallel {
		all.Go(func() {
			for number := range numbers {
				if err := c.clone(ctx, number); err != nil {
					cancel(err)
				}
			}
		})
	}
	go func() {
		defer close(numbers)
		for number := range c.count {
			select {
			case numbers <- number:
			case <-ctx.Done():
				return
			}
		}
	}()
	err := c.watch(ctx)
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	all.Wait()
	return err
}

// clone is the one call that a VM costs.
func (c *climb) clone(ctx context.Context, number int) error {
	name := fmt.Sprintf("%s-%05d", c.prefix, number)
	options := []types.BaseOptionValue{}
	for key, value := range map[string]string{
		"guestinfo.metadata": base64.StdEncoding.EncodeToString([]byte(`{"instance-id": "` + name + `"}`)), "guestinfo.metadata.encoding": "base64",
		"guestinfo.userdata": c.userdata, "guestinfo.userdata.encoding": "gzip+base64",
	} {
		options = append(options, &types.OptionValue{Key: key, Value: value})
	}
	uuid := vim.NewUUID()
	folder := vim.Ref{Type: "Folder", Value: c.folder}
	_, err := methods.CloneVM_Task(ctx, c.client, &types.CloneVM_Task{
		This: c.golden, Folder: folder, Name: name,
		Spec: types.VirtualMachineCloneSpec{
			Location: types.VirtualMachineRelocateSpec{
				DiskMoveType: "createNewChildDiskBacking",
				Pool:         &vim.Ref{Type: "ResourcePool", Value: c.pool},
			},
			Snapshot: &c.snapshot, PowerOn: true,
			Config: &types.VirtualMachineConfigSpec{
				Uuid: uuid, InstanceUuid: uuid, NumCPUs: 2, MemoryMB: 4096, ExtraConfig: options,
				DeviceChange: []types.BaseVirtualDeviceConfigSpec{
					&types.VirtualDeviceConfigSpec{Operation: types.VirtualDeviceConfigSpecOperationEdit, Device: c.adapter},
				},
			},
		},
	})
	return err
}

// watch follows one stream until every VM runs and has an address.
func (c *climb) watch(ctx context.Context) error {
	folder := vim.Ref{Type: "Folder", Value: c.folder}
	v, err := view.NewManager(c.client).CreateContainerView(ctx, folder, []string{"VirtualMachine"}, true)
	if err != nil {
		return err
	}
	type seen struct{ on, ip bool }
	machines, complete := map[vim.Ref]seen{}, 0
	filter := &property.WaitFilter{}
	filter.Spec = types.PropertyFilterSpec{
		ObjectSet: []types.ObjectSpec{{Obj: v.Reference(), SelectSet: []types.BaseSelectionSpec{v.TraversalSpec()}}},
		PropSet:   []types.PropertySpec{{Type: "VirtualMachine", PathSet: []string{"runtime.powerState", "guest.ipAddress"}}},
	}
	return property.WaitForUpdates(ctx, property.DefaultCollector(c.client), filter, func(updates []types.ObjectUpdate) bool {
		for _, u := range updates {
			was := machines[u.Obj]
			now := was
			for _, change := range u.ChangeSet {
				switch change.Name {
				case "runtime.powerState":
					now.on = change.Val == types.VirtualMachinePowerStatePoweredOn
				case "guest.ipAddress":
					address, _ := change.Val.(string)
					now.ip = address != ""
				}
			}
			machines[u.Obj] = now
			if now.on && now.ip && !(was.on && was.ip) {
				complete++
			}
		}
		return complete >= c.count
	})
}

func cpuTime() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vapi/library"
	"github.com/vmware/govmomi/vapi/vcenter"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/core"
	"layercake.invalid/sim/vcsim/vim"
)

// Many hands act on few VMs at once, some by the control API; whatever comes of it, nothing hangs, and the stream's picture is
// the inventory in the end. VCSIM_SEED repeats a run.
func TestAStormLeavesATruePicture(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("VCSIM_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		must(t, err)
	}
	t.Logf("VCSIM_SEED=%d", seed)
	s := newSite(t)
	c := s.login(true)
	golden, snapshot := s.golden(c)
	w := s.watchVMs(s.login(true))
	w.until("golden", func() bool { return w.named("golden") != nil })
	calm := make(chan struct{})
	go func() {
		defer close(calm)
		s.inParallel(8, 400, func(i int) { s.act(c, golden, snapshot, rand.New(rand.NewPCG(seed, uint64(i)))) })
	}()
	for quiet := false; !quiet; {
		select {
		case <-calm:
			quiet = true
		default:
			set, err := w.ask(w.version, 1, 0)
			must(t, err)
			if set != nil {
				w.apply(set)
			}
		}
	}
	w.until("the picture is true", func() bool { return w.matches() })
}

// act does one thing to one VM. What is refused is as good as what is done.
func (s *site) act(c *govmomi.Client, golden *object.VirtualMachine, snapshot vim.Ref, r *rand.Rand) {
	name := fmt.Sprint("vm", r.IntN(12))
	found := s.vmNamed(name)
	if len(found) == 0 {
		_, _ = s.clone(c, golden, name, s.linked(snapshot, func(spec *types.VirtualMachineCloneSpec) { spec.PowerOn = r.IntN(2) == 0 }))
		return
	}
	vm := object.NewVirtualMachine(c.Client, found[0])
	control := "/v1/vms/" + found[0].Value
	var task *object.Task
	switch r.IntN(8) {
	case 0:
		task, _ = vm.PowerOn(s.ctx)
	case 1:
		task, _ = vm.PowerOff(s.ctx)
	case 2:
		task, _ = vm.Destroy(s.ctx)
	case 3:
		task, _ = vm.Reset(s.ctx)
	case 4:
		task, _ = vm.Rename(s.ctx, fmt.Sprint("vm", r.IntN(12)))
	case 5:
		task, _ = vm.Reconfigure(s.ctx, types.VirtualMachineConfigSpec{
			ExtraConfig: []types.BaseOptionValue{option("guestinfo.x", fmt.Sprint(r.Int()))},
		})
	case 6:
		s.open("PUT", control+"/guest", map[string]any{"ip": fmt.Sprint("10.0.0.", r.IntN(200)), "toolsRunning": true}, nil)
	case 7:
		s.open("POST", control+"/power", map[string]any{"action": "destroy"}, nil)
	}
	if task != nil {
		_ = task.Wait(s.ctx)
	}
}

// matches compares the stream's picture with the inventory.
func (w *stream) matches() bool {
	rows := map[vim.Ref]core.Machine{}
	w.Machines.Find(func(r core.Row) bool { rows[vim.Ref{Type: "VirtualMachine", Value: r.MoID}] = r.Machine; return false })
	if len(rows) != len(w.seen) {
		return false
	}
	for r, row := range rows {
		seen := w.seen[r]
		if seen["name"] != row.Name || fmt.Sprint(seen["runtime.powerState"]) != row.PowerState || seen["config.instanceUuid"] != row.InstanceUUID {
			return false
		}
	}
	return true
}

// The library locks the pool and then the folder for a deployment of an OVF item. For a clone, it locks the folder first.
func TestDeploymentsAndClonesInOnePlaceDoNotBlockEachOther(t *testing.T) {
	s := newSite(t)
	c := s.login(true)
	golden := s.create(c, "golden")
	r := s.automation()
	items, err := library.NewManager(r).GetLibraryItems(s.ctx, s.Found.Libraries["layercake"])
	must(t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.inParallel(6, 240, func(i int) {
			vm := vim.Ref{}
			var err error
			if name := fmt.Sprint("vm", i); i%3 == 0 {
				var deployed *vim.Ref
				deployed, err = vcenter.NewManager(r).DeployLibraryItem(s.ctx, items[0].ID, vcenter.Deploy{
					DeploymentSpec: vcenter.DeploymentSpec{Name: name, AcceptAllEULA: true},
					Target:         vcenter.Target{ResourcePoolID: s.Found.ResourcePool, FolderID: s.Found.Folder},
				})
				if err == nil {
					vm = *deployed
				}
			} else {
				vm, err = s.clone(c, golden, name, types.VirtualMachineCloneSpec{
					Location: types.VirtualMachineRelocateSpec{Pool: s.pool()},
				})
			}
			if err != nil {
				t.Errorf("VM %d: %v", i, err)
				return
			}
			task, err := object.NewVirtualMachine(c.Client, vm).Destroy(s.ctx)
			if err == nil {
				err = task.Wait(s.ctx)
			}
			if err != nil {
				t.Errorf("VM %d is not destroyed: %v", i, err)
			}
		})
	}()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		stacks := make([]byte, 1<<20)
		t.Fatalf("deployments and clones block each other:\n%s", stacks[:runtime.Stack(stacks, true)])
	}
}

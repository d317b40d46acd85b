package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vmware/govmomi/vim25/mo"

	"layercake.invalid/sim/vcsim/control"
	"layercake.invalid/sim/vcsim/floor"
	"layercake.invalid/sim/vcsim/spec"
	"layercake.invalid/sim/vcsim/traffic"
	"layercake.invalid/sim/vcsim/vim"
)

func TestTheFloorIsOneCloneAMachine(t *testing.T) {
	for _, wire := range []string{traffic.VIJSON, traffic.SOAP} {
		t.Run(wire, func(t *testing.T) {
			s := newSite(t, func(o *spec.Options) { must(t, o.GuestDelay.Set("1ms")) })
			credentials := filepath.Join(t.TempDir(), "credentials.json")
			content, err := json.Marshal(testCredentials)
			must(t, err)
			must(t, os.WriteFile(credentials, content, 0o600))
			begin, out := strings.NewReader("go\n"), &bytes.Buffer{}
			must(t, floor.Run([]string{
				"--url", s.Ready().URL, "--credentials", credentials, "--wire", wire, "--count", "9", "--parallel", "3",
				"--folder", s.Found.Folder, "--pool", s.Found.ResourcePool, "--library", s.Found.Libraries["layercake"],
				"--item", "ob-1", "--network", "workload",
			}, io.Reader(begin), out))
			ready, result, _ := strings.Cut(out.String(), "\n")
			if ready != "ready" || !strings.Contains(result, `"seconds"`) {
				t.Fatalf("%q", out)
			}
			var requests struct {
				Bytes  traffic.Bytes
				ByWire map[string]map[string]int
			}
			s.open("GET", "/v1/requests", nil, &requests)
			if n := requests.ByWire[wire]["CloneVM_Task"]; n != 9 {
				t.Errorf("%d clones: %v", n, requests.ByWire)
			}
			if requests.Bytes.Received < 9*floor.UserdataBytes || requests.Bytes.Sent == 0 {
				t.Errorf("%+v", requests.Bytes)
			}
		})
	}
}

func TestGuestsReportByThemselves(t *testing.T) {
	s := newSite(t, func(o *spec.Options) { must(t, o.GuestDelay.Set("1ms")) })
	c := s.login(false)
	vm := s.create(c, "a")
	on := func() (ip string) {
		_, err := vm.PowerOn(s.ctx)
		must(t, err)
		s.eventually("an address", func() bool {
			ip = s.props(c, vm.Reference()).Guest.IpAddress
			return ip != ""
		})
		return ip
	}
	first := on()
	s.done(vm.PowerOff(s.ctx))
	if ip := s.props(c, vm.Reference()).Guest.IpAddress; ip != "" {
		t.Errorf("a machine that is off has %s", ip)
	}
	if again := on(); again != first {
		t.Errorf("%s became %s", first, again)
	}
}

func TestCopiesAreThereToBeRead(t *testing.T) {
	s := newSite(t)
	c := s.login(true)
	vm := s.create(c, "original")
	uuid := s.props(c, vm.Reference()).Config.InstanceUuid
	var made []control.VMCopy
	path := "/v1/vms/" + vm.Reference().Value + "/copies"
	s.answers(200, "POST", path, map[string]any{"count": 300, "prefix": "copy"}, &made)
	var seen []mo.VirtualMachine
	var all []vim.Ref
	for _, one := range made {
		all = append(all, vim.Ref{Type: "VirtualMachine", Value: one.MoID})
	}
	must(t, c.Retrieve(s.ctx, all, []string{"name", "config.instanceUuid", "parent"}, &seen))
	if len(seen) != 300 {
		t.Fatal(len(seen))
	}
	for i, one := range seen {
		if one.Name != made[i].Name || one.Config.InstanceUuid != made[i].UUID || one.Config.InstanceUuid == uuid {
			t.Fatalf("%+v, wanted %+v", one, made[i])
		}
	}
	s.answers(400, "POST", path, map[string]any{"count": 0, "prefix": "copy"}, nil)
}

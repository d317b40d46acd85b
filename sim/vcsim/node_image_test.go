package main

import (
	"archive/tar"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vmware/govmomi/ovf"
	"github.com/vmware/govmomi/ovf/importer"
	vapi "github.com/vmware/govmomi/vapi/library"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/library"
	"layercake.invalid/sim/vcsim/spec"
)

// nodeImage packs the descriptor that `layercake image build` writes, with a disk that is empty.
func nodeImage(t *testing.T) string {
	t.Helper()
	descriptor, err := os.ReadFile("../../nodeimage/src/testdata/node.ovf")
	must(t, err)
	disk := library.SmallestDisk()
	// The size is the file's own in an image; the library compares them.
	descriptor = []byte(strings.Replace(string(descriptor), `ovf:size="1234"`, fmt.Sprintf(`ovf:size="%d"`, len(disk)), 1))
	manifest := fmt.Sprintf("SHA256(node.ovf)= %x\nSHA256(disk.vmdk)= %x\n", sha256.Sum256(descriptor), sha256.Sum256(disk))
	path := filepath.Join(t.TempDir(), "node.ova")
	file, err := os.Create(path)
	must(t, err)
	archive := tar.NewWriter(file)
	for _, part := range []struct {
		name    string
		content []byte
	}{{"node.ovf", descriptor}, {"node.mf", []byte(manifest)}, {"disk.vmdk", disk}} {
		must(t, archive.WriteHeader(&tar.Header{Name: part.name, Mode: 0o644, Size: int64(len(part.content))}))
		_, err := archive.Write(part.content)
		must(t, err)
	}
	must(t, archive.Close())
	must(t, file.Close())
	return path
}

// What `govc import.spec` and a VM made of the descriptor show.
func TestANodeImageIsReadByOthers(t *testing.T) {
	archive := &importer.TapeArchive{Path: nodeImage(t)}
	spec, err := importer.Spec("*.ovf", archive, true, true)
	must(t, err)
	if len(spec.NetworkMapping) != 1 || spec.NetworkMapping[0].Name != "VM Network" {
		t.Errorf("networks: %+v", spec.NetworkMapping)
	}
	keys := []string{}
	for _, property := range spec.PropertyMapping {
		keys = append(keys, property.Key)
	}
	for _, key := range []string{"KUBERNETES_SEMVER", "vmware-system.guest.kubernetes.distribution.image.version"} {
		if !slices.Contains(keys, key) {
			t.Errorf("no property %s: %v", key, keys)
		}
	}
	text, err := importer.ReadOvf("*.ovf", archive)
	must(t, err)
	envelope, err := importer.ReadEnvelope(text)
	must(t, err)
	// Strict: hardware that govmomi does not know is an error.
	config, err := envelope.ToConfigSpecWithOptions(ovf.ToConfigSpecOptions{Strict: true})
	must(t, err)
	if config.Firmware != string(types.GuestOsDescriptorFirmwareTypeEfi) || config.GuestId != "debian12_64Guest" || config.Version != "vmx-17" {
		t.Errorf("firmware %s, guest %s, hardware %s", config.Firmware, config.GuestId, config.Version)
	}
	kinds := map[string]int{}
	for _, change := range config.DeviceChange {
		kinds[fmt.Sprintf("%T", change.GetVirtualDeviceConfigSpec().Device)]++
	}
	for _, kind := range []string{"*types.ParaVirtualSCSIController", "*types.VirtualDisk", "*types.VirtualVmxnet3"} {
		if kinds[kind] != 1 {
			t.Errorf("devices: %v", kinds)
		}
	}
}

func TestANodeImageIsDeployedFromALibrary(t *testing.T) {
	dir, archive := t.TempDir(), &importer.TapeArchive{Path: nodeImage(t)}
	files := []string{}
	for _, name := range []string{"node.ovf", "disk.vmdk"} {
		content, err := importer.ReadOvf(name, archive)
		must(t, err)
		files = append(files, filepath.Join(dir, name))
		must(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	s := newSite(t, func(o *spec.Options) { o.Spec.Libraries[0].Items = []spec.LibraryItem{{Name: "node", Files: files}} })
	c := s.login(false)
	r := s.automation()
	items, err := vapi.NewManager(r).GetLibraryItems(s.ctx, s.Found.Libraries["layercake"])
	must(t, err)
	var made mo.VirtualMachine
	must(t, c.RetrieveOne(s.ctx, s.deploy(r, items[0].ID, "node"), []string{"config"}, &made))
	if made.Config.GuestId != "debian12_64Guest" || made.Config.Firmware != "efi" {
		t.Errorf("guest %q, firmware %q", made.Config.GuestId, made.Config.Firmware)
	}
	sizes := []int64{}
	for _, device := range made.Config.Hardware.Device {
		if disk, ok := device.(*types.VirtualDisk); ok {
			sizes = append(sizes, disk.CapacityInBytes)
		}
	}
	if !slices.Equal(sizes, []int64{20 << 30}) {
		t.Errorf("disks of %v bytes", sizes)
	}
}

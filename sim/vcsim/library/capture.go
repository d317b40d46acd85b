package library

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/spec"
	"layercake.invalid/sim/vcsim/traffic"
	"layercake.invalid/sim/vcsim/vim"
	"layercake.invalid/sim/vcsim/wire"
)

// The library makes an item without files of a VM that it does not look at. Ours makes one that can be deployed.

// capture is the request to make an OVF item of a VM.
type capture struct {
	Token  string `json:"client_token"`
	Source struct{ Type, ID string }
	Target struct {
		Library string `json:"library_id"`
	}
	Spec struct{ Name, Description string } `json:"create_spec"`
}

// captures remembers what came of captures, by client token.
type captures struct {
	mu    sync.Mutex
	items map[string]string
}

func (l *Libraries) routeCapture(mux *http.ServeMux) {
	for _, path := range []string{"/api/vcenter/ovf/library-item", "/rest/com/vmware/vcenter/ovf/library-item"} {
		old := strings.HasPrefix(path, "/rest")
		mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
			l.wire.Guarded(w, r, []string{wire.RestName(r)}, true, func(out *traffic.Answer) {
				var wanted capture
				if err := json.NewDecoder(r.Body).Decode(&wanted); err != nil {
					wire.RestError(out, http.StatusBadRequest, "invalid_argument", err.Error())
					return
				}
				// The new form has the token in a header, and knows neither the parameter nor the member.
				if !old {
					if r.URL.Query().Has("client_token") || wanted.Token != "" {
						wire.APIError(out, http.StatusBadRequest, "INVALID_ARGUMENT", "client_token is no parameter; it is the header Client-Token")
						return
					}
					wanted.Token = r.Header.Get("Client-Token")
				}
				wire.WriteREST(out, http.StatusOK, old, l.captured(wanted))
			})
		})
	}
}

// captured carries a capture out, once for each client token, and gives its result.
func (l *Libraries) captured(wanted capture) map[string]any {
	l.captures.mu.Lock()
	defer l.captures.mu.Unlock()
	if id, ok := l.captures.items[wanted.Token]; ok && wanted.Token != "" {
		return map[string]any{"succeeded": true, "ovf_library_item_id": id}
	}
	id, err := l.captureItem(wanted)
	if err != nil {
		class := "com.vmware.vapi.std.errors.error"
		if strings.Contains(err.Error(), "already exists") {
			class = "com.vmware.vapi.std.errors.already_exists"
		}
		message := map[string]any{"id": "vcsim.capture", "default_message": err.Error(), "args": []any{}}
		failure := map[string]any{"category": "SERVER", "error": map[string]any{"@class": class, "messages": []any{message}}}
		return map[string]any{"succeeded": false, "error": map[string]any{
			"errors": []any{failure}, "warnings": []any{}, "information": []any{},
		}}
	}
	if wanted.Token != "" {
		l.captures.items[wanted.Token] = id
	}
	return map[string]any{"succeeded": true, "ovf_library_item_id": id}
}

func (l *Libraries) captureItem(wanted capture) (string, error) {
	if !vim.IsName(wanted.Spec.Name) {
		return "", fmt.Errorf("%q is no name of an item", wanted.Spec.Name)
	}
	vm, ok := l.VMOf(l.Fresh(), wanted.Source.ID)
	if !ok || wanted.Source.Type != "VirtualMachine" {
		return "", fmt.Errorf("there is no %s %s", wanted.Source.Type, wanted.Source.ID)
	}
	var same []string
	err := l.vapiCall("/com/vmware/content/library/item?~action=find", map[string]any{"spec": map[string]any{
		"name": wanted.Spec.Name, "library_id": wanted.Target.Library,
	}}, &same)
	if err != nil {
		return "", err
	}
	if len(same) != 0 {
		return "", fmt.Errorf("an item called %s already exists", wanted.Spec.Name)
	}
	dir, err := os.MkdirTemp(l.Dir, "capture-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	files, err := l.export(vm, dir, wanted.Spec.Name)
	if err != nil {
		return "", err
	}
	item := spec.LibraryItem{Name: wanted.Spec.Name, Description: wanted.Spec.Description, Files: files}
	return l.importItem(wanted.Target.Library, item)
}

// export writes a descriptor of the VM and a file for each of its disks.
func (l *Libraries) export(vm *simulator.VirtualMachine, dir, name string) ([]string, error) {
	var cpus, memory int32
	var disks []int64
	var products string
	l.Fresh().WithLock(vm, func() {
		cpus, memory = vm.Config.Hardware.NumCPU, vm.Config.Hardware.MemoryMB
		products = productSections(vm.Config.VAppConfig)
		for _, disk := range vim.Disks(vm.Config.Hardware.Device) {
			disks = append(disks, disk.CapacityInKB)
		}
	})
	files := []string{filepath.Join(dir, "item.ovf")}
	var references, sections, items strings.Builder
	for i, kib := range disks {
		file := fmt.Sprintf("disk-%d.vmdk", i)
		files = append(files, filepath.Join(dir, file))
		if err := os.WriteFile(filepath.Join(dir, file), SmallestDisk(), 0o600); err != nil {
			return nil, err
		}
		fmt.Fprintf(&references, `<File ovf:id="file%d" ovf:href="%s"/>`, i, file)
		fmt.Fprintf(&sections, `<Disk ovf:diskId="disk%d" ovf:fileRef="file%d" ovf:capacity="%d" ovf:capacityAllocationUnits="byte * 2^10" ovf:format="http://www.vmware.com/interfaces/specifications/vmdk.html#streamOptimized"/>`, i, i, kib)
		fmt.Fprintf(&items, `<Item><rasd:AddressOnParent>%d</rasd:AddressOnParent><rasd:ElementName>disk%d</rasd:ElementName><rasd:HostResource>ovf:/disk/disk%d</rasd:HostResource><rasd:InstanceID>%d</rasd:InstanceID><rasd:Parent>3</rasd:Parent><rasd:ResourceType>17</rasd:ResourceType></Item>`, i, i, i, 10+i)
	}
	ovf := fmt.Sprintf(exported, references.String(), sections.String(), name, name, products, cpus, memory, items.String())
	return files, os.WriteFile(files[0], []byte(ovf), 0o600)
}

// productSections are the OVF properties of a VM, with the values they have: an export carries them on.
func productSections(info types.BaseVmConfigInfo) string {
	if info == nil || len(info.GetVmConfigInfo().Property) == 0 {
		return ""
	}
	var properties strings.Builder
	for _, p := range info.GetVmConfigInfo().Property {
		value := p.Value
		if value == "" {
			value = p.DefaultValue
		}
		configurable := p.UserConfigurable != nil && *p.UserConfigurable
		fmt.Fprintf(&properties, `<Property ovf:key="%s" ovf:type="%s" ovf:userConfigurable="%t" ovf:value="%s"/>`,
			escapedXML(p.Id), escapedXML(p.Type), configurable, escapedXML(value))
		properties.WriteString("\n")
	}
	return "<ProductSection><Info/>\n" + properties.String() + "</ProductSection>\n"
}

func escapedXML(text string) string {
	var out bytes.Buffer
	_ = xml.EscapeText(&out, []byte(text))
	return out.String()
}

const exported = `<?xml version="1.0"?>
<Envelope xmlns="http://schemas.dmtf.org/ovf/envelope/1" xmlns:ovf="http://schemas.dmtf.org/ovf/envelope/1"
 xmlns:rasd="http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_ResourceAllocationSettingData"
 xmlns:vssd="http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_VirtualSystemSettingData"
 xmlns:vmw="http://www.vmware.com/schema/ovf">
<References>%s</References>
<DiskSection><Info/>%s</DiskSection>
<NetworkSection><Info/><Network ovf:name="nic0"/></NetworkSection>
<VirtualSystem ovf:id="%s"><Info/><Name>%s</Name>
<OperatingSystemSection ovf:id="36" vmw:osType="vmwarePhoton64Guest"><Info/></OperatingSystemSection>
%s<VirtualHardwareSection><Info/>
<System><vssd:ElementName>x</vssd:ElementName><vssd:InstanceID>0</vssd:InstanceID><vssd:VirtualSystemType>vmx-17</vssd:VirtualSystemType></System>
<Item><rasd:ElementName>cpu</rasd:ElementName><rasd:InstanceID>1</rasd:InstanceID><rasd:ResourceType>3</rasd:ResourceType><rasd:VirtualQuantity>%d</rasd:VirtualQuantity></Item>
<Item><rasd:AllocationUnits>byte * 2^20</rasd:AllocationUnits><rasd:ElementName>memory</rasd:ElementName><rasd:InstanceID>2</rasd:InstanceID><rasd:ResourceType>4</rasd:ResourceType><rasd:VirtualQuantity>%d</rasd:VirtualQuantity></Item>
<Item><rasd:Address>0</rasd:Address><rasd:ElementName>scsi</rasd:ElementName><rasd:InstanceID>3</rasd:InstanceID><rasd:ResourceSubType>VirtualSCSI</rasd:ResourceSubType><rasd:ResourceType>6</rasd:ResourceType></Item>
%s
<Item><rasd:AddressOnParent>7</rasd:AddressOnParent><rasd:AutomaticAllocation>true</rasd:AutomaticAllocation><rasd:Connection>nic0</rasd:Connection><rasd:ElementName>eth</rasd:ElementName><rasd:InstanceID>5</rasd:InstanceID><rasd:ResourceSubType>VmxNet3</rasd:ResourceSubType><rasd:ResourceType>10</rasd:ResourceType></Item>
</VirtualHardwareSection>
</VirtualSystem></Envelope>`

// SmallestDisk is the smallest streamOptimized VMDK that the library reads: a header and a descriptor of a sector each.
func SmallestDisk() []byte {
	var header bytes.Buffer
	header.WriteString("KDMV")
	for _, v := range []any{
		uint32(3), uint32(3 << 16), uint64(2048), uint64(128), uint64(1), uint64(1), uint32(512),
		uint64(0), uint64(0), uint64(128), uint8(0), []byte("\n \r\n"), uint16(1),
	} {
		_ = binary.Write(&header, binary.LittleEndian, v)
	}
	descriptor := "# Disk DescriptorFile\nversion=1\ncreateType=\"streamOptimized\"\nRDONLY 2048 SPARSE \"disk.vmdk\"\n"
	disk := make([]byte, 1024)
	copy(disk, header.Bytes())
	copy(disk[512:], descriptor)
	return disk
}

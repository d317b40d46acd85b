package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/session"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"layercake.invalid/sim/vcsim/library"
	"layercake.invalid/sim/vcsim/spec"
	"layercake.invalid/sim/vcsim/vim"
)

var testCredentials = spec.Credentials{Username: "administrator@vsphere.local", Password: "secret", ControlToken: "control"}

// site is a simulator under test with a client.
type site struct {
	*Sim
	t   *testing.T
	ctx context.Context
}

func newSite(t *testing.T, edit ...func(*spec.Options)) *site {
	t.Helper()
	dir := t.TempDir()
	o := spec.Options{Listen: "127.0.0.1:0", ControlListen: "127.0.0.1:0", Credentials: testCredentials}
	o.CertFile, o.KeyFile = writeCertificate(t, dir)
	o.Spec.Libraries = []spec.Library{{Name: "layercake", Items: []spec.LibraryItem{writeImage(t, dir, "ob-1")}}}
	o.Spec.Fill()
	for _, f := range edit {
		f(&o)
	}
	sim, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(func() { cancel(); sim.Close() })
	return &site{Sim: sim, t: t, ctx: ctx}
}

func writeCertificate(t *testing.T, dir string) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "vcsim"},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
		NotAfter:     time.Now().Add(time.Hour),
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	must(t, os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}), 0o600))
	must(t, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
	return certFile, keyFile
}

// writeImage makes an OVF with one property and an empty disk.
func writeImage(t *testing.T, dir, name string) spec.LibraryItem {
	t.Helper()
	ovf, disk := filepath.Join(dir, name+".ovf"), filepath.Join(dir, name+"-disk1.vmdk")
	must(t, os.WriteFile(ovf, []byte(strings.ReplaceAll(testOVF, "NAME", name)), 0o600))
	must(t, os.WriteFile(disk, library.SmallestDisk(), 0o600))
	return spec.LibraryItem{Name: name, Files: []string{ovf, disk}}
}

const testOVF = `<?xml version="1.0"?>
<Envelope xmlns="http://schemas.dmtf.org/ovf/envelope/1" xmlns:ovf="http://schemas.dmtf.org/ovf/envelope/1"
 xmlns:rasd="http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_ResourceAllocationSettingData"
 xmlns:vssd="http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_VirtualSystemSettingData"
 xmlns:vmw="http://www.vmware.com/schema/ovf">
<References><File ovf:id="file1" ovf:href="NAME-disk1.vmdk"/></References>
<DiskSection><Info/><Disk ovf:diskId="disk1" ovf:fileRef="file1" ovf:capacity="20" ovf:capacityAllocationUnits="byte * 2^30"
 ovf:format="http://www.vmware.com/interfaces/specifications/vmdk.html#streamOptimized"/></DiskSection>
<NetworkSection><Info/><Network ovf:name="nic0"/></NetworkSection>
<VirtualSystem ovf:id="NAME"><Info/><Name>NAME</Name>
<OperatingSystemSection ovf:id="36" vmw:osType="vmwarePhoton64Guest"><Info/></OperatingSystemSection>
<VirtualHardwareSection><Info/>
<System><vssd:ElementName>x</vssd:ElementName><vssd:InstanceID>0</vssd:InstanceID><vssd:VirtualSystemType>vmx-17</vssd:VirtualSystemType></System>
<Item><rasd:ElementName>cpu</rasd:ElementName><rasd:InstanceID>1</rasd:InstanceID><rasd:ResourceType>3</rasd:ResourceType><rasd:VirtualQuantity>2</rasd:VirtualQuantity></Item>
<Item><rasd:AllocationUnits>byte * 2^20</rasd:AllocationUnits><rasd:ElementName>memory</rasd:ElementName><rasd:InstanceID>2</rasd:InstanceID><rasd:ResourceType>4</rasd:ResourceType><rasd:VirtualQuantity>2048</rasd:VirtualQuantity></Item>
<Item><rasd:Address>0</rasd:Address><rasd:ElementName>scsi</rasd:ElementName><rasd:InstanceID>3</rasd:InstanceID><rasd:ResourceSubType>VirtualSCSI</rasd:ResourceSubType><rasd:ResourceType>6</rasd:ResourceType></Item>
<Item><rasd:AddressOnParent>0</rasd:AddressOnParent><rasd:ElementName>disk</rasd:ElementName><rasd:HostResource>ovf:/disk/disk1</rasd:HostResource><rasd:InstanceID>4</rasd:InstanceID><rasd:Parent>3</rasd:Parent><rasd:ResourceType>17</rasd:ResourceType></Item>
<Item><rasd:AddressOnParent>7</rasd:AddressOnParent><rasd:AutomaticAllocation>true</rasd:AutomaticAllocation><rasd:Connection>nic0</rasd:Connection><rasd:ElementName>eth</rasd:ElementName><rasd:InstanceID>5</rasd:InstanceID><rasd:ResourceSubType>VmxNet3</rasd:ResourceSubType><rasd:ResourceType>10</rasd:ResourceType></Item>
</VirtualHardwareSection>
<ProductSection><Info/><Property ovf:key="image.version" ovf:type="string" ovf:value="v1.36.3+NAME"/></ProductSection>
</VirtualSystem></Envelope>`

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ended waits for the end of the task that a call has started, and gives its error.
func (s *site) ended(task *object.Task, err error) error {
	s.t.Helper()
	must(s.t, err)
	return task.Wait(s.ctx)
}

// done waits for the end of a task, which must succeed.
func (s *site) done(task *object.Task, err error) {
	s.t.Helper()
	must(s.t, s.ended(task, err))
}

// login gives a client over SOAP, or over VI/JSON.
func (s *site) login(vijson bool) *govmomi.Client {
	s.t.Helper()
	transport := soap.NewClient(s.endpoint(), true)
	if vijson {
		transport.Version = "8.0.3.0"
	}
	client, err := vim25.NewClient(s.ctx, transport)
	must(s.t, err)
	if vijson {
		client.UseJSON(true)
		client.Version = "8.0.3.0"
	}
	c := &govmomi.Client{Client: client, SessionManager: session.NewManager(client)}
	must(s.t, c.Login(s.ctx, url.UserPassword(testCredentials.Username, testCredentials.Password)))
	return c
}

// https is a client that trusts anything: the tests are not about TLS.
func (s *site) https() *http.Client {
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
		DisableKeepAlives: true,
	}}
}

func (s *site) endpoint() *url.URL {
	u, err := url.Parse(s.Ready().URL)
	must(s.t, err)
	return u
}

// open calls the control API and decodes its answer.
func (s *site) open(method, path string, body, into any) int {
	s.t.Helper()
	var data io.Reader = http.NoBody
	if body != nil {
		encoded, err := json.Marshal(body)
		must(s.t, err)
		data = bytes.NewReader(encoded)
	}
	r, err := http.NewRequestWithContext(s.ctx, method, s.Ready().Control+path, data)
	must(s.t, err)
	r.Header.Set("Authorization", "Bearer "+testCredentials.ControlToken)
	res, err := http.DefaultClient.Do(r)
	must(s.t, err)
	defer func() { _ = res.Body.Close() }()
	content, err := io.ReadAll(res.Body)
	must(s.t, err)
	if into != nil {
		if err := json.Unmarshal(content, into); err != nil {
			s.t.Fatalf("%s %s: %v: %s", method, path, err, content)
		}
	}
	return res.StatusCode
}

// answers calls the control API, which must answer with this status.
func (s *site) answers(want int, method, path string, body, into any) {
	s.t.Helper()
	if status := s.open(method, path, body, into); status != want {
		s.t.Errorf("%s %s %v: status %d, wanted %d", method, path, body, status, want)
	}
}

func (s *site) folder(c *govmomi.Client) *object.Folder {
	return object.NewFolder(c.Client, vim.Ref{Type: "Folder", Value: s.Found.Folder})
}

func (s *site) pool() *vim.Ref { return &vim.Ref{Type: "ResourcePool", Value: s.Found.ResourcePool} }

// golden makes a powered-off VM with a disk, a adapter and a snapshot, to be cloned.
func (s *site) golden(c *govmomi.Client) (*object.VirtualMachine, vim.Ref) {
	s.t.Helper()
	vm := s.create(c, "golden")
	task, err := vm.CreateSnapshot(s.ctx, "base", "", false, false)
	must(s.t, err)
	info, err := task.WaitForResult(s.ctx)
	must(s.t, err)
	return vm, info.Result.(vim.Ref)
}

func (s *site) create(c *govmomi.Client, name string) *object.VirtualMachine {
	s.t.Helper()
	var devices object.VirtualDeviceList
	scsi, err := devices.CreateSCSIController("pvscsi")
	must(s.t, err)
	disk := devices.CreateDisk(scsi.(types.BaseVirtualController), vim.Ref{}, fmt.Sprintf("[ds0] %s/disk1.vmdk", name))
	disk.CapacityInKB = 1 << 20
	adapter, err := devices.CreateEthernetCard("vmxnet3", &types.VirtualEthernetCardNetworkBackingInfo{
		VirtualDeviceDeviceBackingInfo: types.VirtualDeviceDeviceBackingInfo{DeviceName: spec.StockNetwork},
	})
	must(s.t, err)
	devices = append(devices, scsi, disk, adapter)
	changes, err := devices.ConfigSpec(types.VirtualDeviceConfigSpecOperationAdd)
	must(s.t, err)
	task, err := s.folder(c).CreateVM(s.ctx, types.VirtualMachineConfigSpec{
		Name: name, GuestId: "vmwarePhoton64Guest", NumCPUs: 2, MemoryMB: 2048, DeviceChange: changes,
		Files: &types.VirtualMachineFileInfo{VmPathName: "[ds0]"},
	}, object.NewResourcePool(c.Client, *s.pool()), nil)
	must(s.t, err)
	info, err := task.WaitForResult(s.ctx)
	must(s.t, err)
	return object.NewVirtualMachine(c.Client, info.Result.(vim.Ref))
}

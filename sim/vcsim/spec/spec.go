// Package spec describes the options of a simulator and the inventory that it creates.
package spec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"

	"layercake.invalid/sim/vcsim/vim"
)

// Credentials are who may log in and who may use the control API.
type Credentials struct {
	Username     string `json:"username"`
	Password     string `json:"password"`
	ControlToken string `json:"controlToken"`
}

// Spec describes the inventory; empty members take the defaults of fill.
type Spec struct {
	Datacenter    string    `json:"datacenter"`
	Cluster       string    `json:"cluster"`
	Hosts         int       `json:"hosts"`
	HostCPUMHz    int       `json:"hostCpuMhz"`
	HostMemoryMiB int64     `json:"hostMemoryMiB"`
	Datastores    []string  `json:"datastores"`
	ResourcePool  string    `json:"resourcePool"`
	Folder        string    `json:"folder"`
	PortGroups    []string  `json:"portGroups"`
	APIRelease    string    `json:"apiRelease"`
	Libraries     []Library `json:"libraries"`

	StoragePolicies []StoragePolicy `json:"storagePolicies"`

	// The member by which a deployment accepts licence agreements. vCenter has accept_all_EULA up to 8.0; the published types of
	// 9.0 call it accept_all_eula. Any other name is refused.
	EULAMember string `json:"eulaMember"`
}

// StoragePolicy is a policy beside the usual ones, and the datastores that satisfy it. The usual ones suit all.
type StoragePolicy struct {
	Name       string   `json:"name"`
	Datastores []string `json:"datastores"`
}

// Library is a content library; its items are imported before the simulator is ready. One that subscribes to another
// has that one's items, and fetches their disks when it is asked to.
type Library struct {
	Name       string        `json:"name"`
	Items      []LibraryItem `json:"items"`
	Subscribes string        `json:"subscribes"` // the name of a library before it
}

// LibraryItem is one OVF image: the paths of its descriptor and its disks.
type LibraryItem struct {
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Files       []string `json:"files"`
}

const knownEULAMember = "accept_all_EULA"

// StockNetwork is the standard network that the library puts into every datacenter.
const StockNetwork = "VM Network"

// ReadSpec reads the file, or gives the defaults when there is none.
func ReadSpec(file string) (Spec, error) {
	var s Spec
	if file != "" {
		data, err := os.ReadFile(file)
		if err != nil {
			return s, fmt.Errorf("spec: %w", err)
		}
		decoder := json.NewDecoder(bytes.NewReader(data))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&s); err != nil {
			return s, fmt.Errorf("spec %s: %w", file, err)
		}
	}
	s.Fill()
	return s, nil
}

// HasPublishedMembers tells whether deployments have the members that the published types of the automation API name.
func (s *Spec) HasPublishedMembers() bool { return s.EULAMember == knownEULAMember }

// Fill sets the defaults of what is empty.
func (s *Spec) Fill() {
	vim.SetDefault(&s.Datacenter, "dc0")
	vim.SetDefault(&s.Cluster, "cluster0")
	vim.SetDefault(&s.Hosts, 4)
	vim.SetDefault(&s.HostCPUMHz, 64_000)
	vim.SetDefault(&s.HostMemoryMiB, 256*1024)
	vim.SetDefault(&s.ResourcePool, "layercake")
	vim.SetDefault(&s.Folder, "layercake")
	vim.SetDefault(&s.APIRelease, "8.0.3.0")
	vim.SetDefault(&s.EULAMember, knownEULAMember)
	if len(s.Datastores) == 0 {
		s.Datastores = []string{"ds0"}
	}
	if len(s.PortGroups) == 0 {
		s.PortGroups = []string{StockNetwork, "workload"}
	}
}

// ReadCredentials refuses a file that others may read: it holds a password.
func ReadCredentials(file string) (Credentials, error) {
	var c Credentials
	info, err := os.Stat(file)
	if err != nil {
		return c, fmt.Errorf("credentials: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return c, fmt.Errorf("credentials %s: mode %o lets others read it; chmod 600", file, info.Mode().Perm())
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return c, fmt.Errorf("credentials: %w", err)
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return c, fmt.Errorf("credentials %s: not the expected JSON", file)
	}
	if c.Username == "" || c.Password == "" || c.ControlToken == "" {
		return c, fmt.Errorf("credentials %s: username, password and controlToken must all be set", file)
	}
	return c, nil
}

// Found is what the ready line tells: the morefs of everything that the spec names.
type Found struct {
	Datacenter   string            `json:"datacenter"`
	Cluster      string            `json:"cluster"`
	ResourcePool string            `json:"resourcePool"`
	Folder       string            `json:"folder"`
	Datastores   map[string]string `json:"datastores"`
	Networks     map[string]string `json:"networks"`
	Segments     map[string]string `json:"segments"` // NSX's UUIDs of networks that are its segments
	Libraries    map[string]string `json:"libraries"`

	StoragePolicies map[string]string `json:"storagePolicies"`
}

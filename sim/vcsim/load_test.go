package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/view"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
	"github.com/vmware/govmomi/vim25/xml"

	"layercake.invalid/sim/vcsim/spec"
	"layercake.invalid/sim/vcsim/vim"
)

// save writes the inventory as govc object.save does: a file for each object, the service instance first.
func (s *site) save(folder string) {
	s.t.Helper()
	c := s.login(false)
	pc := property.DefaultCollector(c.Client)
	var contents []types.ObjectContent
	must(s.t, pc.RetrieveOne(s.ctx, vim25.ServiceInstance, []string{"content"}, &contents))
	root := c.ServiceContent.RootFolder
	all, err := view.NewManager(c.Client).CreateContainerView(s.ctx, root, nil, true)
	must(s.t, err)
	refs, err := all.Find(s.ctx, nil, property.Match{})
	must(s.t, err)
	for _, ref := range mo.References(c.ServiceContent) {
		var one []types.ObjectContent
		if ref != root && pc.RetrieveOne(s.ctx, ref, nil, &one) == nil {
			contents = append(contents, one...)
		}
	}
	for _, ref := range append([]vim.Ref{root}, refs...) {
		var one []types.ObjectContent
		must(s.t, pc.RetrieveOne(s.ctx, ref, nil, &one))
		contents = append(contents, one...)
	}
	for i, content := range contents {
		file, err := os.Create(filepath.Join(folder, fmt.Sprintf("%04d-%s.xml", i, content.Obj.Encode())))
		must(s.t, err)
		must(s.t, xml.NewEncoder(file).Encode(content))
		must(s.t, file.Close())
	}
}

func TestASavedInventoryIsLoaded(t *testing.T) {
	saved := newSite(t, func(o *spec.Options) { o.Spec.Hosts = 2 })
	created := saved.create(saved.login(true), "vm-1")
	folder := t.TempDir()
	saved.save(folder)

	s := newSite(t, func(o *spec.Options) { o.LoadFolder = folder })
	if s.Found.Cluster != saved.Found.Cluster || s.Found.Datacenter != saved.Found.Datacenter {
		t.Errorf("loaded %+v, saved %+v", s.Found, saved.Found)
	}
	if s.Found.Networks["workload"] != saved.Found.Networks["workload"] || len(s.Found.Datastores) != 1 {
		t.Errorf("networks %v, datastores %v", s.Found.Networks, s.Found.Datastores)
	}
	c := s.login(true)
	vm := s.props(c, created.Reference())
	if vm.Name != "vm-1" || vm.Config == nil {
		t.Errorf("loaded VM %+v", vm)
	}
	// What was loaded can be changed as what was built.
	s.done(object.NewVirtualMachine(c.Client, created.Reference()).Destroy(s.ctx))
}

func TestAnInventoryWithoutAClusterIsRefused(t *testing.T) {
	dir := t.TempDir()
	o := spec.Options{Listen: "127.0.0.1:0", ControlListen: "127.0.0.1:0", Credentials: testCredentials, LoadFolder: t.TempDir()}
	o.CertFile, o.KeyFile = writeCertificate(t, dir)
	o.Spec.Fill()
	if sim, err := Start(o); err == nil {
		sim.Close()
		t.Error("an empty folder was loaded")
	}
}

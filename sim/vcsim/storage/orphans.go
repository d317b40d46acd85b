package storage

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"

	"layercake.invalid/sim/vcsim/vim"
)

// OrphanedFiles are the folders of datastores that belong to no VM.
func (s *Storage) OrphanedFiles(ctx *simulator.Context) ([]string, error) {
	used := map[string]bool{}
	use := func(name string) {
		var path object.DatastorePath
		if path.FromString(name) {
			used[filepath.Join(path.Datastore, strings.Split(path.Path, "/")[0])] = true
		}
	}
	for _, e := range ctx.Map.All("VirtualMachine") {
		vm := e.(*simulator.VirtualMachine)
		ctx.WithLock(vm, func() {
			use(vm.Config.Files.VmPathName)
			disks, bases := vim.FilesOf(vm)
			for _, file := range append(disks, bases...) {
				use(file)
			}
		})
	}
	orphans := []string{}
	for _, name := range s.Options.Spec.Datastores {
		found, err := os.ReadDir(filepath.Join(s.Dir, "datastore-"+name))
		if err != nil {
			return nil, err
		}
		for _, file := range found {
			// The library's own files stand in folders of their own, and first class disks are nobody's VM.
			own := strings.HasPrefix(file.Name(), "contentlib-") || file.Name() == fcdFolder
			if path := filepath.Join(name, file.Name()); !used[path] && !own {
				orphans = append(orphans, path)
			}
		}
	}
	slices.Sort(orphans)
	return orphans, nil
}

// RemoveOrphans removes the folders of the datastores that belong to no VM.
func (s *Storage) RemoveOrphans() error {
	s.Files.Lock()
	defer s.Files.Unlock()
	orphans, err := s.OrphanedFiles(s.Fresh())
	for _, folder := range orphans {
		_ = os.RemoveAll(filepath.Join(s.Dir, "datastore-"+folder))
	}
	return err
}

package core

import (
	"fmt"
	"path/filepath"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25"
)

// load reads an inventory that govc object.save wrote into the folder. A folder that lacks a part of it is refused.
func load(model *simulator.Model, folder string) error {
	saved, err := filepath.Glob(filepath.Join(folder, "*-ServiceInstance-*.xml"))
	if err != nil || len(saved) == 0 {
		return fmt.Errorf("load %s: no service instance was saved there. Save the inventory with govc object.save", folder)
	}
	if err := model.Load(folder); err != nil {
		return fmt.Errorf("load %s: %w", folder, err)
	}
	registry := model.Service.Context.Map
	content := registry.Get(vim25.ServiceInstance).(*simulator.ServiceInstance).Content
	if content.Setting == nil || registry.Get(*content.Setting) == nil {
		return fmt.Errorf("load %s: no settings were saved there. Save the inventory with govc object.save", folder)
	}
	return nil
}

package compute

import (
	"sync"

	"layercake.invalid/sim/vcsim/vim"
)

// Images knows of which item of a content library the first disk of a VM is a copy: the library makes empty files.
type Images struct {
	mu sync.Mutex
	of map[vim.Ref]string
}

// Set notes the item of a VM; without a name nothing changes.
func (i *Images) Set(vm vim.Ref, item string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if item == "" {
		return
	}
	if i.of == nil {
		i.of = map[vim.Ref]string{}
	}
	i.of[vm] = item
}

// Get gives the name of a VM's item, or nothing.
func (i *Images) Get(vm vim.Ref) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.of[vm]
}

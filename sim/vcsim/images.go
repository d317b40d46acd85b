package main

import "sync"

// images knows of which item of a content library the first disk of a VM is a copy: the library makes empty files.
type images struct {
	mu sync.Mutex
	of map[ref]string
}

func (i *images) set(vm ref, item string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if item == "" {
		return
	}
	if i.of == nil {
		i.of = map[ref]string{}
	}
	i.of[vm] = item
}

func (i *images) get(vm ref) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.of[vm]
}

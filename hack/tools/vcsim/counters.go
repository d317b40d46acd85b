package main

import (
	"maps"
	"sync"
)

// counters tell how many requests of clients came in, by wire and method.
type counters struct {
	mu     sync.Mutex
	total  int
	byWire map[string]map[string]int
}

func (c *counters) add(wire, method string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byWire == nil {
		c.byWire = map[string]map[string]int{}
	}
	if c.byWire[wire] == nil {
		c.byWire[wire] = map[string]int{}
	}
	c.byWire[wire][method]++
	c.total++
}

func (c *counters) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total, c.byWire = 0, nil
}

// snapshot has a member per wire, even where nothing came.
func (c *counters) snapshot() map[string]any {
	c.mu.Lock()
	defer c.mu.Unlock()
	byWire := map[string]map[string]int{}
	for _, wire := range []string{wireJSON, wireSOAP, wireREST} {
		byWire[wire] = map[string]int{}
		maps.Copy(byWire[wire], c.byWire[wire])
	}
	return map[string]any{"total": c.total, "byWire": byWire}
}

package main

import (
	"testing"

	"layercake.invalid/sim/vcsim/spec"
)

// The library's own collector stays selectable; it serves a client that does one thing at a time.
func TestTheStockCollector(t *testing.T) {
	both(t, func(t *testing.T, json bool) {
		s := newSite(t, func(o *spec.Options) { o.StockCollector = true })
		c := s.login(json)
		golden, snapshot := s.golden(c)
		vm, err := s.clone(c, golden, "clone", s.linked(snapshot))
		must(t, err)
		if got := s.props(c, vm).Name; got != "clone" {
			t.Errorf("name %s", got)
		}
	})
}

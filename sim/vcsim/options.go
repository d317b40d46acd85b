package main

import "time"

// Options are everything that a simulator is started with.
type Options struct {
	Listen         string
	ControlListen  string
	CertFile       string
	KeyFile        string
	Credentials    Credentials
	Spec           Spec
	StockCollector bool
	LenientSOAP    bool
	GuestDelay     delay
	RealGuests     bool   // see shutdownGuest
	RecordFolder   string // see recorder
}

// delay is a duration that may be unset, which is not the same as none.
type delay struct {
	set  bool
	long time.Duration
}

// Set is part of flag.Value.
func (d *delay) Set(text string) error {
	long, err := time.ParseDuration(text)
	d.set, d.long = err == nil, long
	return err
}

// String is part of flag.Value.
func (d *delay) String() string {
	if !d.set {
		return ""
	}
	return d.long.String()
}

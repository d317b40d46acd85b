package spec

import "time"

// Options are everything that a simulator is started with.
type Options struct {
	Listen        string
	ControlListen string
	Name          string // in URLs of transfers; empty if it is the address of the endpoint
	CertFile      string
	KeyFile       string
	Credentials   Credentials
	Spec          Spec
	GuestDelay    Delay
	RealGuests    bool   // see compute.shutdownGuest
	RecordFolder  string // see Recorder
	LoadFolder    string // an inventory that govc object.save wrote; the spec's is not built
}

// Delay is a duration that may be unset, which is not the same as none.
type Delay struct {
	IsSet bool
	Long  time.Duration
}

// Set is part of flag.Value.
func (d *Delay) Set(text string) error {
	long, err := time.ParseDuration(text)
	d.IsSet, d.Long = err == nil, long
	return err
}

// String is part of flag.Value.
func (d *Delay) String() string {
	if !d.IsSet {
		return ""
	}
	return d.Long.String()
}

// Command vcsim simulates one vCenter for Layercake's site and tests.
//
// The inventory and most of its behaviour are govmomi's simulator library. This program adds what a modern client
// needs and the library lacks: the VI/JSON wire, a PropertyCollector that serves a watching client, clones that keep
// what they were asked for, and a private control API through which a test plays guest, admin and fault.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"layercake.invalid/sim/vcsim/floor"
	"layercake.invalid/sim/vcsim/spec"
	"layercake.invalid/sim/vcsim/traffic"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("vcsim: ")
	// Small before fast: the simulator runs beside everything else that is under test.
	debug.SetGCPercent(50)
	serve := run
	if len(os.Args) > 1 && os.Args[1] == "floor" {
		os.Args, serve = os.Args[1:], floor.Run
	}
	if err := serve(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// run serves until a signal comes or, if asked, until in is closed.
func run(args []string, in io.Reader, out io.Writer) error {
	options, stdinExit, err := parse(args)
	if err != nil {
		return err
	}
	sim, err := Start(options)
	if err != nil {
		return err
	}
	defer sim.Close()

	line, err := json.Marshal(sim.Ready())
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, "%s\n", line); err != nil {
		return err
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if stdinExit {
		go func() {
			_, _ = io.Copy(io.Discard, in)
			stop()
		}()
	}
	<-ctx.Done()
	return nil
}

// parse reads the flags and the files they name.
func parse(args []string) (spec.Options, bool, error) {
	flags := flag.NewFlagSet("vcsim", flag.ContinueOnError)
	var o spec.Options
	flags.StringVar(&o.Listen, "listen", "127.0.0.1:0", "address of the vCenter endpoint (HTTPS)")
	flags.StringVar(&o.ControlListen, "control", "127.0.0.1:0", "address of the control API (HTTP)")
	flags.StringVar(&o.Name, "name", "", "`host` in URLs of transfers, if clients reach this server by another address than the endpoint's, on the same port")
	flags.StringVar(&o.CertFile, "tlscert", "", "PEM `file` of the server certificate")
	flags.StringVar(&o.KeyFile, "tlskey", "", "PEM `file` of its key")
	flags.Var(&o.GuestDelay, "guests-report-after", "guests report an address by themselves, so `long` after power-on; without it only the control API reports")
	credentials := flags.String("credentials", "", "JSON `file` with username, password and controlToken, mode 0600")
	described := flags.String("spec", "", "JSON `file` that describes the inventory; without it a small default")
	flags.StringVar(&o.LoadFolder, "load", "", "`folder` that govc object.save wrote; its inventory takes the place of the spec's")
	flags.BoolVar(&o.RealGuests, "real-guests", false, "guests shut down by themselves: ShutdownGuest only asks them, by the control API")
	stdinExit := flags.Bool("stdin-exit", false, "exit when stdin is closed")
	if err := flags.Parse(args); err != nil {
		return o, false, err
	}
	if o.CertFile == "" || o.KeyFile == "" {
		return o, false, fmt.Errorf("--tlscert and --tlskey are required")
	}
	if *credentials == "" {
		return o, false, fmt.Errorf("--credentials is required")
	}
	var err error
	if o.Credentials, err = spec.ReadCredentials(*credentials); err != nil {
		return o, false, err
	}
	o.RecordFolder = os.Getenv(traffic.RecordVariable)
	o.Spec, err = spec.ReadSpec(*described)
	return o, *stdinExit, err
}

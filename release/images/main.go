// Command images packs programs into OCI images, one archive each, without Docker: one layer with the program and the
// authorities that it trusts, run by a user without rights. The same programs make the same bytes.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("images: ")
	var options Options
	programs := flag.String("programs", "", "folder of the programs")
	out := flag.String("out", "", "folder for the archives")
	flag.StringVar(&options.Repository, "repository", "localhost/layercake", "registry and path before each image's name")
	flag.StringVar(&options.Tag, "tag", "", "tag of each image")
	flag.StringVar(&options.Version, "version", "", "version of the programs")
	flag.StringVar(&options.Revision, "revision", "", "commit that they are built from")
	flag.StringVar(&options.Source, "source", "", "where the source is")
	flag.Parse()
	if *programs == "" || *out == "" || options.Tag == "" || flag.NArg() == 0 {
		log.Fatal("usage: images -programs FOLDER -out FOLDER -tag TAG … NAME…")
	}
	created, err := created()
	if err != nil {
		log.Fatal(err)
	}
	options.Created = created
	if err := os.MkdirAll(*out, 0o755); err != nil {
		log.Fatal(err)
	}
	for _, name := range flag.Args() {
		archive := filepath.Join(*out, name+".tar")
		digest, err := options.Pack(name, filepath.Join(*programs, name), archive)
		if err != nil {
			log.Fatalf("%s: %v", name, err)
		}
		fmt.Printf("%s  %s  %s\n", archive, options.Reference(name), digest)
	}
}

// created is the time that images bear: SOURCE_DATE_EPOCH, else the epoch itself, never the clock's.
func created() (time.Time, error) {
	text, ok := os.LookupEnv("SOURCE_DATE_EPOCH")
	if !ok {
		return time.Unix(0, 0).UTC(), nil
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH=%s: want seconds since 1970", text)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

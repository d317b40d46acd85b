// Command preload makes the content of /var/lib/containerd in which a node's images lie unpacked, with containerd's own
// libraries and without containerd running. The same programs make the same bytes: no time of the clock is in the result.
//
//	preload -images images.json -root FOLDER [-archives FOLDER] -out FOLDER
//
// It mounts, so it needs to be root, if only in a user namespace.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("preload: ")
	list := flag.String("images", "", "file that lists the images, in JSON")
	root := flag.String("root", "", "folder in which the files of the images lie")
	archives := flag.String("archives", "", "folder of further images, each an archive of an OCI layout or of Docker")
	out := flag.String("out", "", "folder that becomes /var/lib/containerd; it must not exist")
	flag.Parse()
	if *list == "" || *root == "" || *out == "" || flag.NArg() != 0 {
		log.Fatal("usage: preload -images FILE -root FOLDER -out FOLDER")
	}
	if err := run(*list, *root, *archives, *out); err != nil {
		log.Fatal(err)
	}
}

func run(list, root, archives, out string) error {
	created, err := created()
	if err != nil {
		return err
	}
	text, err := os.ReadFile(list)
	if err != nil {
		return err
	}
	var images []Image
	if err := json.Unmarshal(text, &images); err != nil {
		return fmt.Errorf("%s: %w", list, err)
	}
	store, err := newStore(out)
	if err != nil {
		return err
	}
	for _, image := range images {
		archive, err := image.Pack(root, created)
		if err != nil {
			return fmt.Errorf("image %s: %w", image.Names[0], err)
		}
		if err := store.load(context.Background(), bytes.NewReader(archive)); err != nil {
			return fmt.Errorf("image %s: %w", image.Names[0], err)
		}
	}
	if archives != "" {
		if err := store.loadAll(context.Background(), archives); err != nil {
			return err
		}
	}
	if err := store.close(context.Background()); err != nil {
		return err
	}
	return normalise(out, created)
}

// created is the time that everything bears: SOURCE_DATE_EPOCH, else the epoch itself, never the clock's.
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

package main

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sort"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// user is the one that config/ runs the programs as: `nonroot`, as distroless images call it.
const user = "65532"

// Options are what all images of one run have in common.
type Options struct {
	Repository, Tag, Version, Revision, Source string
	Created                                    time.Time
}

// Reference is the name by which an image is run.
func (o Options) Reference(name string) string {
	return o.Repository + "/" + name + ":" + o.Tag
}

// Pack writes the image of one program as an archive of an OCI layout, and returns its digest.
func (o Options) Pack(name, program, archive string) (v1.Hash, error) {
	image, err := o.image(name, program)
	if err != nil {
		return v1.Hash{}, err
	}
	folder, err := os.MkdirTemp("", "image-")
	if err != nil {
		return v1.Hash{}, err
	}
	defer os.RemoveAll(folder)
	index, err := layout.Write(folder, empty.Index)
	if err != nil {
		return v1.Hash{}, err
	}
	// The first is the specification's and skopeo's, the second containerd's.
	names := layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": o.Tag,
		"io.containerd.image.name":          o.Reference(name),
	})
	if err := index.AppendImage(image, names); err != nil {
		return v1.Hash{}, err
	}
	if err := writeArchive(folder, archive); err != nil {
		return v1.Hash{}, err
	}
	return image.Digest()
}

func (o Options) image(name, program string) (v1.Image, error) {
	content, err := o.layer(name, program)
	if err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }
	layer, err := tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	machine, err := architecture(program)
	if err != nil {
		return nil, err
	}
	image := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	image = mutate.ConfigMediaType(image, types.OCIConfigJSON)
	image, err = mutate.Append(image, mutate.Addendum{
		Layer:   layer,
		History: v1.History{Created: v1.Time{Time: o.Created}, CreatedBy: "release/build-images"},
	})
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.Created = v1.Time{Time: o.Created}
	config.OS, config.Architecture = "linux", machine
	config.Config = v1.Config{
		User:       user + ":" + user,
		Entrypoint: []string{"/" + name},
		WorkingDir: "/",
		Labels:     o.labels(name),
	}
	return mutate.ConfigFile(image, config)
}

func (o Options) labels(name string) map[string]string {
	labels := map[string]string{
		"org.opencontainers.image.title":    name,
		"org.opencontainers.image.source":   o.Source,
		"org.opencontainers.image.version":  o.Version,
		"org.opencontainers.image.revision": o.Revision,
		"org.opencontainers.image.licenses": "Apache-2.0",
	}
	maps.DeleteFunc(labels, func(_, value string) bool { return value == "" })
	return labels
}

// layer is a tar with the program, the authorities and the names of users, each with the same owner and time always.
func (o Options) layer(name, program string) ([]byte, error) {
	content, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	nonroot := "root:x:0:0:root:/:/sbin/nologin\nnonroot:x:" + user + ":" + user + ":nonroot:/:/sbin/nologin\n"
	var buffer bytes.Buffer
	writer := tar.NewWriter(&buffer)
	for _, entry := range []struct {
		name    string
		mode    int64
		content []byte
	}{
		{"etc/", 0o755, nil},
		{"etc/passwd", 0o644, []byte(nonroot)},
		{"etc/ssl/", 0o755, nil},
		{"etc/ssl/certs/", 0o755, nil},
		{"etc/ssl/certs/ca-certificates.crt", 0o644, authorities()},
		{name, 0o755, content},
	} {
		if err := o.add(writer, entry.name, entry.mode, entry.content); err != nil {
			return nil, err
		}
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}
	return buffer.Bytes(), nil
}

// authorities are those that browsers trust, in PEM: a vCenter may have a certificate of one of them. Some count only for
// what they signed in former times, which PEM can't say: those are left out.
func authorities() []byte {
	var text bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			text.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
		}
	}
	return text.Bytes()
}

func (o Options) add(writer *tar.Writer, name string, mode int64, content []byte) error {
	header := tar.Header{Name: name, Mode: mode, Size: int64(len(content)), ModTime: o.Created, Format: tar.FormatUSTAR}
	header.Typeflag = tar.TypeReg
	if name[len(name)-1] == '/' {
		header.Typeflag = tar.TypeDir
	}
	if err := writer.WriteHeader(&header); err != nil {
		return err
	}
	_, err := writer.Write(content)
	return err
}

// architecture is the one that a program is built for; it must need nothing that its image does not have.
func architecture(program string) (string, error) {
	file, err := elf.Open(program)
	if err != nil {
		return "", fmt.Errorf("no program for Linux: %w", err)
	}
	defer file.Close()
	for _, header := range file.Progs {
		if header.Type == elf.PT_INTERP {
			return "", errors.New("needs a dynamic linker, which no image has: build it as release/build-images does")
		}
	}
	switch file.Machine {
	case elf.EM_X86_64:
		return "amd64", nil
	case elf.EM_AARCH64:
		return "arm64", nil
	default:
		return "", fmt.Errorf("an unknown machine: %v", file.Machine)
	}
}

// writeArchive packs a layout into one file, in the order of its names.
func writeArchive(folder, archive string) error {
	var names []string
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		return err
	}
	sort.Strings(names)
	unfinished := archive + ".unfinished"
	file, err := os.Create(unfinished)
	if err != nil {
		return err
	}
	defer file.Close()
	writer := tar.NewWriter(file)
	for _, path := range names {
		if err := copyInto(writer, folder, path); err != nil {
			return err
		}
	}
	if err := errors.Join(writer.Close(), file.Close()); err != nil {
		return err
	}
	return os.Rename(unfinished, archive)
}

func copyInto(writer *tar.Writer, folder, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	name, err := filepath.Rel(folder, path)
	if err != nil {
		return err
	}
	header := tar.Header{
		Typeflag: tar.TypeReg, Name: filepath.ToSlash(name), Mode: 0o644, Size: info.Size(),
		ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR,
	}
	if err := writer.WriteHeader(&header); err != nil {
		return err
	}
	_, err = io.Copy(writer, file)
	return err
}

package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// searchPath is where programs of an image are looked for.
const searchPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Image is one to preload: of one layer.
type Image struct {
	// Names by which it is run, each with its tag.
	Names []string `json:"names"`
	// Entrypoint of its containers.
	Entrypoint []string `json:"entrypoint"`
	// Files, each from where it lies below the root; a folder comes with all that is in it. A program brings the libraries that
	// it is linked with.
	Files map[string]string `json:"files"`
	// Links, each with what it points to.
	Links map[string]string `json:"links"`
}

// Pack returns an archive of an OCI layout with the image under all its names.
func (i Image) Pack(root string, created time.Time) ([]byte, error) {
	if len(i.Names) == 0 {
		return nil, errors.New("it has no name")
	}
	layer, err := i.layer(root, created)
	if err != nil {
		return nil, err
	}
	blobs := map[string][]byte{}
	add := func(kind string, content []byte) v1.Descriptor {
		sum := sha256.Sum256(content)
		name := hex.EncodeToString(sum[:])
		blobs["blobs/sha256/"+name] = content
		return v1.Descriptor{MediaType: kind, Digest: digest.NewDigestFromEncoded(digest.SHA256, name), Size: int64(len(content))}
	}
	platform := v1.Platform{Architecture: "amd64", OS: "linux"}
	packed := add(v1.MediaTypeImageLayer, layer)
	config, err := json.Marshal(v1.Image{
		Created: &created, Platform: platform,
		Config: v1.ImageConfig{Entrypoint: i.Entrypoint, Env: []string{searchPath}, WorkingDir: "/"},
		RootFS: v1.RootFS{Type: "layers", DiffIDs: []digest.Digest{packed.Digest}},
	})
	if err != nil {
		return nil, err
	}
	manifest, err := json.Marshal(v1.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageManifest,
		Config: add(v1.MediaTypeImageConfig, config), Layers: []v1.Descriptor{packed},
	})
	if err != nil {
		return nil, err
	}
	index := v1.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageIndex}
	described := add(v1.MediaTypeImageManifest, manifest)
	described.Platform = &platform
	for _, name := range i.Names {
		described.Annotations = map[string]string{"io.containerd.image.name": name}
		index.Manifests = append(index.Manifests, described)
	}
	if blobs[v1.ImageIndexFile], err = json.Marshal(index); err != nil {
		return nil, err
	}
	blobs[v1.ImageLayoutFile] = []byte(`{"imageLayoutVersion":"1.0.0"}`)
	return archive(blobs)
}

func archive(blobs map[string][]byte) ([]byte, error) {
	var buffer bytes.Buffer
	writer := tar.NewWriter(&buffer)
	for _, name := range slices.Sorted(maps.Keys(blobs)) {
		header := tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(blobs[name])), Format: tar.FormatUSTAR}
		if err := writer.WriteHeader(&header); err != nil {
			return nil, err
		}
		if _, err := writer.Write(blobs[name]); err != nil {
			return nil, err
		}
	}
	err := writer.Close()
	return buffer.Bytes(), err
}

// layer is a tar of all files and the libraries they need, in the order of their names.
func (i Image) layer(root string, created time.Time) ([]byte, error) {
	files, err := i.collect(root)
	if err != nil {
		return nil, err
	}
	folders := map[string]int64{"tmp": 0o1777, "run": 0o755, "etc": 0o755}
	for name := range files {
		addParents(folders, name)
	}
	for name := range i.Links {
		addParents(folders, name)
	}
	var buffer bytes.Buffer
	writer := tar.NewWriter(&buffer)
	put := func(header tar.Header, content []byte) error {
		header.ModTime, header.Format, header.Size = created, tar.FormatPAX, int64(len(content))
		if err := writer.WriteHeader(&header); err != nil {
			return err
		}
		_, err := writer.Write(content)
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(folders)) {
		if err := put(tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: folders[name]}, nil); err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		content, err := os.ReadFile(files[name])
		if err != nil {
			return nil, err
		}
		info, err := os.Stat(files[name])
		if err != nil {
			return nil, err
		}
		header := tar.Header{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(name, "/"), Mode: int64(info.Mode().Perm())}
		if err := put(header, content); err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(i.Links)) {
		header := tar.Header{Typeflag: tar.TypeSymlink, Name: strings.TrimPrefix(name, "/"), Linkname: i.Links[name], Mode: 0o777}
		if err := put(header, nil); err != nil {
			return nil, err
		}
	}
	err = writer.Close()
	return buffer.Bytes(), err
}

func addParents(folders map[string]int64, name string) {
	for folder := path.Dir(strings.TrimPrefix(name, "/")); folder != "."; folder = path.Dir(folder) {
		if _, ok := folders[folder]; !ok {
			folders[folder] = 0o755
		}
	}
}

// collect returns the file behind each path of the image.
func (i Image) collect(root string) (map[string]string, error) {
	files := map[string]string{}
	for name, source := range i.Files {
		from := filepath.Join(root, source)
		err := filepath.WalkDir(from, func(found string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			resolved, err := resolve(root, strings.TrimPrefix(found, root))
			if err != nil {
				return err
			}
			files[path.Join(name, strings.TrimPrefix(found, from))] = filepath.Join(root, resolved)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := addLibraries(root, files[name], files); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return files, nil
}

package main

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

var options = Options{
	Repository: "localhost/layercake", Tag: "v1", Version: "1.0.0", Revision: "abc", Created: time.Unix(1_700_000_000, 0).UTC(),
}

// check fails the test at once if there is an error.
func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// program builds a small one, dynamic or static as flags say.
func program(t *testing.T, folder, name string, environment ...string) string {
	t.Helper()
	source := filepath.Join(folder, "main.go")
	check(t, os.WriteFile(source, []byte("package main\n\nfunc main() { println(\"runs\") }\n"), 0o600))
	path := filepath.Join(folder, name)
	build := exec.Command("go", "build", "-o", path, source)
	build.Env = append(os.Environ(), environment...)
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	return path
}

func TestTheSameProgramMakesTheSameArchive(t *testing.T) {
	folder := t.TempDir()
	path := program(t, folder, "gcm", "CGO_ENABLED=0")
	var digests []v1.Hash
	var archives [][]byte
	for _, name := range []string{"first.tar", "second.tar"} {
		// Neither the file's own time nor the clock's counts.
		now := time.Now().Add(time.Duration(len(digests)) * time.Hour)
		check(t, os.Chtimes(path, now, now))
		digest, err := options.Pack("gcm", path, filepath.Join(folder, name))
		check(t, err)
		content, err := os.ReadFile(filepath.Join(folder, name))
		check(t, err)
		digests, archives = append(digests, digest), append(archives, content)
	}
	if digests[0] != digests[1] || !bytes.Equal(archives[0], archives[1]) {
		t.Errorf("two builds differ: %v", digests)
	}
}

func TestAnImageIsOneLayerThatANamelessUserRuns(t *testing.T) {
	folder := t.TempDir()
	archive := filepath.Join(folder, "capw.tar")
	if _, err := options.Pack("capw", program(t, folder, "capw", "CGO_ENABLED=0"), archive); err != nil {
		t.Fatal(err)
	}
	unpacked := filepath.Join(folder, "layout")
	content, err := os.ReadFile(archive)
	check(t, err)
	for name, file := range files(t, content) {
		path := filepath.Join(unpacked, name)
		check(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, file.content, 0o600)))
	}
	index, err := layout.ImageIndexFromPath(unpacked)
	check(t, err)
	manifest, err := index.IndexManifest()
	check(t, err)
	descriptor := manifest.Manifests[0]
	if name := descriptor.Annotations["io.containerd.image.name"]; name != "localhost/layercake/capw:v1" {
		t.Errorf("it is named %q", name)
	}
	image, err := index.Image(descriptor.Digest)
	check(t, err)
	if err := validate.Image(image); err != nil {
		t.Error(err)
	}
	config, err := image.ConfigFile()
	check(t, err)
	if config.Config.User != "65532:65532" || config.Config.Entrypoint[0] != "/capw" || config.OS != "linux" {
		t.Errorf("it runs as %+v", config.Config)
	}
	if !config.Created.Equal(options.Created) || !config.History[0].Created.Equal(options.Created) {
		t.Errorf("it was created at %v", config.Created)
	}
	if config.Config.Labels["org.opencontainers.image.revision"] != "abc" {
		t.Errorf("its labels are %v", config.Config.Labels)
	}
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	checkLayer(t, layers[0])
}

func checkLayer(t *testing.T, layer v1.Layer) {
	t.Helper()
	reader, err := layer.Uncompressed()
	check(t, err)
	content, err := io.ReadAll(reader)
	check(t, err)
	found := files(t, content)
	if found["capw"].header.Mode != 0o755 {
		t.Error("the program can't be run")
	}
	for name, file := range found {
		if file.header.Uid != 0 || file.header.Mode&0o022 != 0 || !file.header.ModTime.Equal(options.Created) {
			t.Errorf("%s: %+v", name, file.header)
		}
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(found["etc/ssl/certs/ca-certificates.crt"].content) {
		t.Error("no authorities")
	}
}

type file struct {
	header  *tar.Header
	content []byte
}

func files(t *testing.T, archive []byte) map[string]file {
	t.Helper()
	found := map[string]file{}
	reader := tar.NewReader(bytes.NewReader(archive))
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		check(t, err)
		content, err := io.ReadAll(reader)
		check(t, err)
		found[header.Name] = file{header, content}
	}
}

func TestAProgramThatNoImageCouldRunIsRefused(t *testing.T) {
	folder := t.TempDir()
	text := filepath.Join(folder, "text")
	check(t, os.WriteFile(text, []byte("no program"), 0o700))
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no shell")
	}
	for path, reason := range map[string]string{text: "no program for Linux", shell: "needs a dynamic linker"} {
		_, err := options.Pack("gcm", path, filepath.Join(folder, "gcm.tar"))
		if err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: %v", path, err)
		}
		if _, err := os.Stat(filepath.Join(folder, "gcm.tar")); err == nil {
			t.Errorf("%s: an archive is there", path)
		}
	}
}

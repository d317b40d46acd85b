package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var moment = time.Unix(1_789_199_741, 0).UTC()

// check fails the test at once if there is an error.
func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// tree makes a folder of files; what begins with -> is a link.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, name)
		check(t, os.MkdirAll(filepath.Dir(path), 0o755))
		var err error
		if to, ok := strings.CutPrefix(content, "->"); ok {
			err = os.Symlink(to, path)
		} else {
			err = os.WriteFile(path, []byte(content), 0o755)
		}
		check(t, err)
	}
	return root
}

var sample = Image{
	Names:      []string{"registry.k8s.io/pause:3.10.2", "localhost/pause:x"},
	Entrypoint: []string{"/pause", "-P"},
	Files:      map[string]string{"/pause": "/usr/bin/pause", "/usr/lib/modules": "/lib/modules"},
	Links:      map[string]string{"/bin/sh": "busybox"},
}

func sampleRoot(t *testing.T) string {
	return tree(t, map[string]string{
		"usr/bin/pause": "a program", "usr/lib/modules/b.so": "b", "usr/lib/modules/a.so": "->b.so", "lib": "->usr/lib",
	})
}

func TestAnImageHasItsFilesInOrder(t *testing.T) {
	packed, err := sample.Pack(sampleRoot(t), moment)
	check(t, err)
	blobs := read(t, packed)
	var index struct {
		Manifests []struct {
			Digest      string
			Annotations map[string]string
		}
	}
	check(t, json.Unmarshal([]byte(blobs["index.json"]), &index))
	if len(index.Manifests) != 2 || index.Manifests[0].Digest != index.Manifests[1].Digest {
		t.Errorf("two names are not one image: %s", blobs["index.json"])
	}
	layer, err := sample.layer(sampleRoot(t), moment)
	check(t, err)
	files := read(t, layer)
	for name, content := range map[string]string{"pause": "a program", "usr/lib/modules/a.so": "b", "usr/lib/modules/b.so": "b"} {
		if files[name] != content {
			t.Errorf("%s is %q, want %q", name, files[name], content)
		}
	}
}

func TestAFileThatIsMissingIsNamed(t *testing.T) {
	missing := Image{Names: []string{"a:b"}, Files: map[string]string{"/x": "/no/such"}}
	if _, err := missing.Pack(sampleRoot(t), moment); err == nil || !strings.Contains(err.Error(), "no/such") {
		t.Errorf("got %v", err)
	}
}

func TestLinksDoNotLeadOutOfTheRoot(t *testing.T) {
	root := tree(t, map[string]string{"etc/passwd": "inside", "a/b": "->../../../../etc/passwd", "c": "->/etc/passwd", "loop": "->loop"})
	for _, name := range []string{"/a/b", "/c"} {
		if resolved, err := resolve(root, name); err != nil || resolved != "/etc/passwd" {
			t.Errorf("%s leads to %q, %v", name, resolved, err)
		}
	}
	if _, err := resolve(root, "/loop"); err == nil {
		t.Error("a loop ends")
	}
}

func TestTheSameImagesMakeTheSameStore(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount")
	}
	t.Setenv("SOURCE_DATE_EPOCH", "1789199741")
	root, folder := sampleRoot(t), t.TempDir()
	list, err := json.Marshal([]Image{sample})
	check(t, err)
	check(t, os.WriteFile(filepath.Join(folder, "images.json"), list, 0o600))
	digest := func(name string) string {
		out := filepath.Join(folder, name)
		check(t, run(filepath.Join(folder, "images.json"), root, "", out))
		return digestOf(t, out)
	}
	if first, second := digest("first"), digest("second"); first != second {
		t.Errorf("two stores differ: %s and %s", first, second)
	}
}

func TestImagesOfArchivesAreLoaded(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount")
	}
	root, folder := sampleRoot(t), t.TempDir()
	list, archives := filepath.Join(folder, "images.json"), filepath.Join(folder, "archives")
	write := func(name string, content []byte) { check(t, os.WriteFile(name, content, 0o600)) }
	check(t, os.Mkdir(archives, 0o700))
	write(list, []byte("[]"))
	other := sample
	other.Names = []string{"localhost/other:1"}
	archive, err := other.Pack(root, moment)
	check(t, err)
	write(filepath.Join(archives, "0000.tar"), archive)
	out := filepath.Join(folder, "out")
	check(t, run(list, root, archives, out))
	names, err := os.ReadFile(filepath.Join(out, metadataFile))
	if err != nil || !bytes.Contains(names, []byte(other.Names[0])) {
		t.Errorf("the store does not know %s: %v", other.Names[0], err)
	}
	write(filepath.Join(archives, "0001.tar"), []byte("no archive"))
	if err := run(list, root, archives, filepath.Join(folder, "none")); err == nil || !strings.Contains(err.Error(), "0001.tar") {
		t.Errorf("got %v", err)
	}
}

// read returns the content of each file of a tar.
func read(t *testing.T, archive []byte) map[string]string {
	t.Helper()
	files := map[string]string{}
	reader := tar.NewReader(bytes.NewReader(archive))
	for {
		header, err := reader.Next()
		if err == io.EOF {
			return files
		}
		check(t, err)
		content, err := io.ReadAll(reader)
		check(t, err)
		files[header.Name] = string(content)
	}
}

// digestOf is one of all paths, times and contents below a folder.
func digestOf(t *testing.T, folder string) string {
	t.Helper()
	hash := sha256.New()
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		hash.Write([]byte(strings.TrimPrefix(path, folder)))
		hash.Write([]byte(info.Mode().String()))
		if entry.Type().IsRegular() {
			hash.Write([]byte(info.ModTime().UTC().String()))
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			hash.Write(content)
		}
		return nil
	})
	check(t, err)
	return hex.EncodeToString(hash.Sum(nil))
}

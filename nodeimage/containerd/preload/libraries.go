package main

import (
	"debug/elf"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// libraryFolders is where Debian's loader looks.
var libraryFolders = []string{"/usr/lib/x86_64-linux-gnu", "/lib/x86_64-linux-gnu", "/usr/lib", "/lib"}

// addLibraries adds the loader and the libraries that a program needs, and those that these need, under the names by which they
// are looked for. What is no program needs none.
func addLibraries(root, program string, files map[string]string) error {
	file, err := elf.Open(program)
	if err != nil {
		return nil
	}
	defer file.Close()
	needed, err := file.ImportedLibraries()
	if err != nil {
		return err
	}
	for _, header := range file.Progs {
		if header.Type == elf.PT_INTERP {
			loader := make([]byte, header.Filesz)
			if _, err := header.ReadAt(loader, 0); err != nil {
				return err
			}
			needed = append(needed, strings.TrimRight(string(loader), "\x00"))
		}
	}
	for _, name := range needed {
		if err := addLibrary(root, name, files); err != nil {
			return err
		}
	}
	return nil
}

func addLibrary(root, name string, files map[string]string) error {
	candidates := []string{name}
	if !path.IsAbs(name) {
		candidates = nil
		for _, folder := range libraryFolders {
			candidates = append(candidates, path.Join(folder, name))
		}
	}
	for _, candidate := range candidates {
		resolved, err := resolve(root, candidate)
		if err != nil {
			continue
		}
		// The loader is found by its own path only, which in Debian leads through a link.
		target := candidate
		if _, ok := files[target]; ok {
			return nil
		}
		files[target] = filepath.Join(root, resolved)
		return addLibraries(root, files[target], files)
	}
	return fmt.Errorf("there is no library %s in %s", name, root)
}

// resolve follows the links of a path as they lead below root, and returns a path below root that is none.
func resolve(root, name string) (string, error) {
	done, rest := "/", strings.Split(strings.Trim(path.Clean(name), "/"), "/")
	for hops := 0; len(rest) > 0; hops++ {
		if hops > 255 {
			return "", fmt.Errorf("%s: too many links", name)
		}
		part := rest[0]
		rest = rest[1:]
		at := path.Join(done, part)
		info, err := os.Lstat(filepath.Join(root, at))
		if err != nil {
			return "", err
		}
		if info.Mode()&os.ModeSymlink == 0 {
			done = at
			continue
		}
		link, err := os.Readlink(filepath.Join(root, at))
		if err != nil {
			return "", err
		}
		if !path.IsAbs(link) {
			link = path.Join(done, link)
		}
		rest = append(strings.Split(strings.Trim(path.Clean(link), "/"), "/"), rest...)
		done = "/"
	}
	return done, nil
}

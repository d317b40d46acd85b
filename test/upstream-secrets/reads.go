// Package reads finds the functions of Cluster API and of its in-cluster IPAM provider that handle Secrets and ConfigMaps.
//
// A tenant can write Secrets and ConfigMaps, so each of these functions can get a tenant's text. reads.txt lists them with
// what they read. The test fails if the list and the sources of the versions in plane/modules differ.
package reads

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
)

// kinds are the types and texts that stand for a Secret or ConfigMap.
var kinds = map[string]bool{
	"Secret": true, "SecretList": true, "ConfigMap": true, "ConfigMapList": true, "secrets": true, "configmaps": true,
}

// readers are the functions of Cluster API that read a Secret by the name of a cluster, by package.
var readers = map[string]map[string]bool{
	"sigs.k8s.io/cluster-api/util/secret":     {"Get": true, "GetFromNamespacedName": true, "Name": true},
	"sigs.k8s.io/cluster-api/util/kubeconfig": {"FromSecret": true, "CreateSecretWithOwner": true, "RegenerateSecret": true},
}

const coreV1 = "k8s.io/api/core/v1"

// Functions returns `FILE FUNCTION` for each function in a folder of sources that handles a Secret or ConfigMap.
func Functions(root string, folders []string) ([]string, error) {
	found := map[string]bool{}
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
			name := filepath.Base(path)
			if err != nil || entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "zz_generated") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			relative, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			for _, function := range functionsOf(file) {
				found[filepath.ToSlash(relative)+" "+function] = true
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	all := make([]string, 0, len(found))
	for one := range found {
		all = append(all, one)
	}
	sort.Strings(all)
	return all, nil
}

// functionsOf returns the names of a file's functions that handle a Secret or ConfigMap.
func functionsOf(file *ast.File) []string {
	imports := map[string]string{}
	for _, spec := range file.Imports {
		path, _ := strconv.Unquote(spec.Path.Value)
		name := path[strings.LastIndex(path, "/")+1:]
		if spec.Name != nil {
			name = spec.Name.Name
		}
		imports[name] = path
	}
	var names []string
	for _, declaration := range file.Decls {
		name := "(declaration)"
		if function, is := declaration.(*ast.FuncDecl); is {
			name = function.Name.Name
		} else if declaration.(*ast.GenDecl).Tok == token.IMPORT {
			continue
		}
		if handles(declaration, imports) {
			names = append(names, name)
		}
	}
	return names
}

func handles(node ast.Node, imports map[string]string) bool {
	found := false
	ast.Inspect(node, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.BasicLit:
			text, err := strconv.Unquote(node.Value)
			found = found || node.Kind == token.STRING && err == nil && kinds[text]
		case *ast.SelectorExpr:
			if of, is := node.X.(*ast.Ident); is {
				path := imports[of.Name]
				found = found || path == coreV1 && kinds[node.Sel.Name] || readers[path][node.Sel.Name]
			}
		}
		return !found
	})
	return found
}

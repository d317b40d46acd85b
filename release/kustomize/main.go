// Command kustomize prints what a folder with a kustomization.yaml amounts to, as `kubectl kustomize` does.
package main

import (
	"log"
	"os"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("kustomize: ")
	if len(os.Args) != 2 {
		log.Fatal("usage: kustomize FOLDER")
	}
	options := krusty.MakeDefaultOptions()
	// Sorted as kubectl sorts where the kustomization says nothing of it.
	options.Reorder = krusty.ReorderOptionUnspecified
	resources, err := krusty.MakeKustomizer(options).Run(filesys.MakeFsOnDisk(), os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	yaml, err := resources.AsYaml()
	if err != nil {
		log.Fatal(err)
	}
	if _, err := os.Stdout.Write(yaml); err != nil {
		log.Fatal(err)
	}
}

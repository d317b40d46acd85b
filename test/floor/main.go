// Command floor holds clusters of Layercake against clusters of Cluster API's own in-memory provider, on one stack and by turns.
//
// test/floor/run builds the provider, starts the stack and runs it. That provider simulates machines in its own memory and waits
// for nothing, so what it needs is what Cluster API itself takes: the floor.
package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	namespace = "floor"
	// look is how often a cluster is looked at, and so how exact each figure is.
	look = 100 * time.Millisecond
	// patience is for one cluster to come up or to go.
	patience = 5 * time.Minute
)

// contender is a way to a cluster.
type contender struct {
	name     string
	manifest string
	kind     string
	// up is whether the object that a user looks at says that the cluster is there.
	up func(object *unstructured.Unstructured) bool
}

//go:embed in-memory.yaml
var inMemory string

//go:embed layercake.yaml
var layercake string

var contenders = []contender{
	{"Cluster API, in memory", inMemory, "Cluster", isAvailable},
	{"Layercake", layercake, "TanzuKubernetesCluster", isRunning},
}

func main() {
	rounds := flag.Int("rounds", 3, "how often each size is brought up of each kind")
	provider := flag.String("provider", "", "the program of Cluster API's development provider")
	manifests := flag.String("manifests", "", "that provider's folder of manifests, config/")
	flag.Parse()
	ctx := ctrl.SetupSignalHandler()
	if err := run(ctx, *provider, *manifests, *rounds); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, provider, manifests string, rounds int) error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	to, err := client.New(config, client.Options{})
	if err != nil {
		return err
	}
	stop, err := start(ctx, config, provider, manifests)
	if err != nil {
		return fmt.Errorf("start the in-memory provider: %w", err)
	}
	defer stop()
	if err := coolDown(ctx, to); err != nil {
		return fmt.Errorf("the first cluster: %w", err)
	}
	for _, replicas := range []int{1, 3} {
		figures := make([][]float64, len(contenders))
		for round := range rounds {
			for at, contender := range contenders {
				// Cluster API keeps its connection to a cluster for a while, under its name.
				name := fmt.Sprintf("c%d-%d-%d", replicas, round, at)
				taken, err := contender.measure(ctx, to, name, replicas)
				if err != nil {
					return fmt.Errorf("%s, %d + %d: %w", contender.name, replicas, replicas, err)
				}
				figures[at] = append(figures[at], taken.Seconds())
				log.Printf("%s, %d + %d: %.1f s", contender.name, replicas, replicas, taken.Seconds())
			}
		}
		floor := median(figures[0])
		for at, contender := range contenders {
			fmt.Printf("%d + %d, %s: median %.1f s of %.1f; %.2f of the floor\n",
				replicas, replicas, contender.name, median(figures[at]), figures[at], median(figures[at])/floor)
		}
	}
	return nil
}

// coolDown removes the cluster that the stack was started with, once it runs.
func coolDown(ctx context.Context, to client.Client) error {
	warm := &unstructured.Unstructured{}
	warm.SetAPIVersion("run.tanzu.vmware.com/v1alpha3")
	warm.SetKind("TanzuKubernetesCluster")
	warm.SetNamespace(namespace)
	warm.SetName("warm")
	if err := waitUntil(ctx, to, warm, isRunning); err != nil {
		return err
	}
	return remove(ctx, to, []*unstructured.Unstructured{warm}, warm)
}

// measure brings a cluster up, takes the time, and removes it.
func (contender contender) measure(ctx context.Context, to client.Client, name string, replicas int) (time.Duration, error) {
	objects, err := contender.objects(name, replicas)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	for _, object := range objects {
		if err := to.Create(ctx, object); err != nil {
			return 0, err
		}
	}
	top := objects[slices.IndexFunc(objects, func(one *unstructured.Unstructured) bool { return one.GetKind() == contender.kind })]
	if err := waitUntil(ctx, to, top, contender.up); err != nil {
		return 0, err
	}
	taken := time.Since(began)
	return taken, remove(ctx, to, objects, top)
}

// waitUntil looks at an object until it is up.
func waitUntil(ctx context.Context, to client.Client, object *unstructured.Unstructured, up func(*unstructured.Unstructured) bool) error {
	isUp := func(ctx context.Context) (bool, error) {
		err := to.Get(ctx, client.ObjectKeyFromObject(object), object)
		return err == nil && up(object), err
	}
	if err := wait.PollUntilContextTimeout(ctx, look, patience, true, isUp); err != nil {
		text, _ := object.MarshalJSON()
		return fmt.Errorf("it is not up: %w: %s", err, text)
	}
	return nil
}

// remove deletes a cluster and then what was applied beside it.
func remove(ctx context.Context, to client.Client, objects []*unstructured.Unstructured, top *unstructured.Unstructured) error {
	if err := to.Delete(ctx, top); err != nil {
		return err
	}
	isGone := func(ctx context.Context) (bool, error) {
		err := to.Get(ctx, client.ObjectKeyFromObject(top), top)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	}
	if err := wait.PollUntilContextTimeout(ctx, look, patience, true, isGone); err != nil {
		return fmt.Errorf("it does not go: %w", err)
	}
	for _, object := range objects {
		if err := to.Delete(ctx, object); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}

func (contender contender) objects(name string, replicas int) ([]*unstructured.Unstructured, error) {
	text := strings.NewReplacer("${NAME}", name, "${REPLICAS}", fmt.Sprint(replicas)).Replace(contender.manifest)
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewBufferString(text), 4096)
	var objects []*unstructured.Unstructured
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, err
		}
		objects = append(objects, object)
	}
}

// isAvailable is whether every machine that is wanted is there, up to date and available.
func isAvailable(cluster *unstructured.Unstructured) bool {
	return whole(cluster, "controlPlane") && whole(cluster, "workers")
}

func whole(cluster *unstructured.Unstructured, part string) bool {
	count := func(field string) int64 {
		value, _, _ := unstructured.NestedInt64(cluster.Object, "status", part, field)
		return value
	}
	wanted := count("desiredReplicas")
	return wanted > 0 && count("availableReplicas") == wanted && count("upToDateReplicas") == wanted
}

// isRunning is whether the phase says so.
func isRunning(cluster *unstructured.Unstructured) bool {
	phase, _, _ := unstructured.NestedString(cluster.Object, "status", "phase")
	return phase == "running"
}

func median(figures []float64) float64 {
	sorted := slices.Sorted(slices.Values(figures))
	return sorted[len(sorted)/2]
}

func init() {
	log.SetOutput(os.Stderr)
	log.SetFlags(log.Ltime)
}

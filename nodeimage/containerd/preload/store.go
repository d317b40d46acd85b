package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/diff"
	"github.com/containerd/containerd/v2/core/diff/apply"
	"github.com/containerd/containerd/v2/core/metadata"
	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/containerd/v2/plugins/content/local"
	"github.com/containerd/containerd/v2/plugins/snapshots/overlay"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
	bolt "go.etcd.io/bbolt"
)

// The folders below /var/lib/containerd, as containerd names them after its plugins.
const (
	contentFolder  = "io.containerd.content.v1.content"
	metadataFile   = "io.containerd.metadata.v1.bolt/meta.db"
	snapshotFolder = "io.containerd.snapshotter.v1.overlayfs"
	snapshotFile   = snapshotFolder + "/metadata.db"
	snapshotter    = "overlayfs"
	// namespace is the one in which the kubelet's containers run.
	namespace = "k8s.io"
)

// labels of a preloaded image: the kubelet knows it, and never collects it, for a cluster may have no way to a registry.
var labels = map[string]string{"io.cri-containerd.image": "managed", "io.cri-containerd.pinned": "pinned"}

type store struct {
	database  *bolt.DB
	metadata  *metadata.DB
	snapshots snapshots.Snapshotter
	client    *client.Client
}

// applier unpacks layers; preload never compares.
type applier struct{ diff.Applier }

func (applier) Compare(context.Context, []mount.Mount, []mount.Mount, ...diff.Opt) (v1.Descriptor, error) {
	return v1.Descriptor{}, errors.New("layers are not compared")
}

func newStore(out string) (*store, error) {
	if err := os.Mkdir(out, 0o711); err != nil {
		return nil, err
	}
	content, err := local.NewStore(filepath.Join(out, contentFolder))
	if err != nil {
		return nil, err
	}
	overlays, err := overlay.NewSnapshotter(filepath.Join(out, snapshotFolder))
	if err != nil {
		return nil, err
	}
	file := filepath.Join(out, metadataFile)
	if err := os.MkdirAll(filepath.Dir(file), 0o711); err != nil {
		return nil, err
	}
	database, err := bolt.Open(file, 0o644, nil)
	if err != nil {
		return nil, err
	}
	db := metadata.NewDB(database, content, map[string]snapshots.Snapshotter{snapshotter: overlays})
	if err := db.Init(context.Background()); err != nil {
		return nil, err
	}
	client, err := client.New("", client.WithServices(
		client.WithContentStore(db.ContentStore()),
		client.WithImageStore(metadata.NewImageStore(db)),
		client.WithSnapshotters(map[string]snapshots.Snapshotter{snapshotter: db.Snapshotter(snapshotter)}),
		client.WithLeasesService(metadata.NewLeaseManager(db)),
		client.WithDiffService(applier{apply.NewFileSystemApplier(db.ContentStore())}),
	))
	if err != nil {
		return nil, err
	}
	return &store{database: database, metadata: db, snapshots: overlays, client: client}, nil
}

// loadAll imports and unpacks all archives of a folder, in the order of their names.
func (s *store) loadAll(ctx context.Context, folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		archive, err := os.Open(filepath.Join(folder, entry.Name()))
		if err != nil {
			return err
		}
		err = s.load(ctx, archive)
		_ = archive.Close()
		if err != nil {
			return fmt.Errorf("archive %s: %w", entry.Name(), err)
		}
	}
	return nil
}

// load imports and unpacks the images of an archive, under all their names.
func (s *store) load(ctx context.Context, archive io.Reader) error {
	ctx = namespaces.WithNamespace(ctx, namespace)
	found, err := s.client.Import(ctx, archive, client.WithImageLabels(labels), client.WithDiscardUnpackedLayers())
	if err != nil {
		return fmt.Errorf("import: %w", err)
	}
	for _, image := range found {
		if err := client.NewImage(s.client, image).Unpack(ctx, snapshotter); err != nil {
			return fmt.Errorf("unpack: %w", err)
		}
	}
	return nil
}

// close drops what is only needed to unpack, and leaves files that nothing has open.
func (s *store) close(ctx context.Context) error {
	_, err := s.metadata.GarbageCollect(namespaces.WithNamespace(ctx, namespace))
	return errors.Join(err, s.snapshots.Close(), s.database.Close())
}

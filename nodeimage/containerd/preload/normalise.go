package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	bolt "go.etcd.io/bbolt"
)

// normalise takes out of a store what differs from run to run: times, how many blocks a file happened to take, and the order in
// which pages of the databases were written.
func normalise(out string, created time.Time) error {
	for _, name := range []string{metadataFile, snapshotFile} {
		if err := rewrite(filepath.Join(out, name), out, created); err != nil {
			return err
		}
	}
	return filepath.WalkDir(out, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Type()&os.ModeSymlink != 0 {
			return err
		}
		return os.Chtimes(path, created, created)
	})
}

func rewrite(file, out string, created time.Time) error {
	source, err := bolt.Open(file, 0o600, nil)
	if err != nil {
		return err
	}
	defer source.Close()
	err = source.Update(func(tx *bolt.Tx) error {
		return tx.ForEach(func(_ []byte, bucket *bolt.Bucket) error { return settle(bucket, out, created) })
	})
	if err != nil {
		return err
	}
	// Lists of free pages are kept in order only as arrays.
	options := bolt.Options{PageSize: 4096, FreelistType: bolt.FreelistArrayType, NoSync: true}
	target, err := bolt.Open(file+".new", 0o600, &options)
	if err != nil {
		return err
	}
	// A transaction writes the buckets that it has changed in no order: each changes one.
	const everyKey = 1
	if err := bolt.Compact(target, source, everyKey); err != nil {
		target.Close()
		return err
	}
	if err := errors.Join(target.Sync(), target.Close()); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// settle gives every entry of a bucket the one time, and every snapshot the size that its files have.
func settle(bucket *bolt.Bucket, out string, created time.Time) error {
	stamp, err := created.MarshalBinary()
	if err != nil {
		return err
	}
	changes := map[string][]byte{}
	err = bucket.ForEach(func(key, value []byte) error {
		switch {
		case value == nil:
			return settle(bucket.Bucket(key), out, created)
		case bytes.Equal(key, []byte("createdat")), bytes.Equal(key, []byte("updatedat")):
			changes[string(key)] = stamp
		case bytes.Equal(key, []byte("size")) && bucket.Get([]byte("inodes")) != nil:
			id, _ := binary.Uvarint(bucket.Get([]byte("id")))
			size, err := sizeOf(filepath.Join(out, snapshotFolder, "snapshots", strconv.FormatUint(id, 10), "fs"))
			if err != nil {
				return err
			}
			changes["size"] = binary.AppendVarint(nil, size)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for key, value := range changes {
		if err := bucket.Put([]byte(key), value); err != nil {
			return err
		}
	}
	return nil
}

// sizeOf is what a folder's files take in whole blocks.
func sizeOf(folder string) (int64, error) {
	const block = 4096
	var size int64
	err := filepath.WalkDir(folder, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			size += (info.Size() + block - 1) / block * block
		}
		return err
	})
	return size, err
}

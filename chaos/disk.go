package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// smallDisk is a file system of a few megabytes.
type smallDisk struct{ dir string }

// mountSmall mounts one, or returns nil where that is not allowed.
func mountSmall(dir string, megabytes int) *smallDisk {
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+strconv.Itoa(megabytes)+"m"); err != nil {
		return nil
	}
	return &smallDisk{dir}
}

func (d *smallDisk) unmount() { _ = syscall.Unmount(d.dir, syscall.MNT_DETACH) }

func (d *smallDisk) ballast() string { return filepath.Join(d.dir, "ballast") }

// fill takes every byte that is left.
func (d *smallDisk) fill() error {
	f, err := os.OpenFile(d.ballast(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	for size := 1 << 20; size > 0; {
		_, err := f.Write(make([]byte, size))
		switch {
		case errors.Is(err, syscall.ENOSPC):
			size /= 2 // a shorter one may still fit
		case err != nil && !errors.Is(err, io.ErrShortWrite):
			return err
		}
	}
	return nil
}

func (d *smallDisk) free() error { return os.Remove(d.ballast()) }

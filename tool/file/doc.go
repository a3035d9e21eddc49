// Package file is tools for a folder of files: list, read, write, move and delete.
//
// It promises that nothing outside the caller's folder is read or changed, whatever
// an argument says and whatever links lie in it: paths are plain ones below the
// folder, and everything is opened through an [os.Root]. It promises that a file is
// written whole or not at all, and that what it refuses it refuses before it changes
// anything. Files of Placet itself are out of reach (rule K2).
//
// It may import dispatch, guard, record, registry, tool/local and the standard library.
package file

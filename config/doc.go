// Package config is placet.yaml: how this server runs.
//
// [Load] reads, checks and fills in. Every key of the file's target shape is
// known; one whose feature is not built yet is refused as "not supported yet",
// so that nobody relies on a line that does nothing. Relative paths mean paths
// beside the file. Secrets are references and are not read here.
//
// It may import yamlfile and the standard library, nothing else: what the
// sections mean is for the packages they configure.
package config

package registry

const fixedDigest = ""

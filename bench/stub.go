package main

import "context"

func (b *bench) resources(ctx context.Context) error { return nil }

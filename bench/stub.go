package main

import "context"

const childRole = "child"

func child(ctx context.Context, args []string) error { return nil }
func (b *bench) gateway(ctx context.Context) error { return nil }
func (b *bench) decisionVersusOPA(ctx context.Context) error { return nil }
func (b *bench) resources(ctx context.Context) error { return nil }

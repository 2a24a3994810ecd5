package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/messages"
)

// concordSystem runs the nodes of a binary as `concord serve` does, with more watches
// allowed. Each connection has an exactly-once session, as any client's has.
type concordSystem struct {
	members
	bin       string
	endpoints []string
}

func (s *concordSystem) Start(ctx context.Context, dir string, n int) error {
	s.dir = dir
	p, err := ports(3 * n)
	if err != nil {
		return err
	}
	s.endpoints = p[:n]
	var peers []string
	for i := range n {
		peers = append(peers, "--member", fmt.Sprintf("%d=%s,%s,%s", i+1, p[n+i], p[2*n+i], p[i]))
	}
	for i := range n {
		line := []string{s.bin, "serve", "--data-dir", filepath.Join(dir, fmt.Sprintf("m%d", i)), "--listen", p[i],
			"--watches-max", "1000000", "--watches-per-client", "1000000"}
		if n > 1 {
			line = append(append(line, "--replica-id", fmt.Sprint(i+1)), peers...)
		}
		if err := s.run(line...); err != nil {
			return err
		}
	}
	for i := range n {
		if err := s.ready(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

func (s *concordSystem) ready(ctx context.Context, i int) error {
	c, err := s.Dial(i)
	if err != nil {
		return err
	}
	defer c.Close()
	return await(ctx, "concord", func(ctx context.Context) error { return c.Put(ctx, "ready", nil) })
}

func (s *concordSystem) Restart(ctx context.Context) error {
	s.kill(0)
	if err := s.start(0); err != nil {
		return err
	}
	return s.ready(ctx, 0)
}

func (s *concordSystem) Dial(i int) (Conn, error) {
	c, err := client.New(client.Config{Endpoints: []string{s.endpoints[i%len(s.endpoints)]}, Name: "peers", Timeout: 30 * time.Second})
	return concordConn{c}, err
}

func (s *concordSystem) Leader(ctx context.Context) (int, error) {
	c, err := s.Dial(0)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	r, err := c.(concordConn).c.Status(ctx)
	return int(r.GetLeaderId()) - 1, err
}

type concordConn struct{ c *client.Client }

func (e concordConn) Close() { _ = e.c.Close() }

func (e concordConn) Put(ctx context.Context, key string, value []byte) error {
	_, err := e.c.Put(ctx, key, value, client.PutOptions{NoPrev: true})
	return err
}

func (e concordConn) Get(ctx context.Context, key string, stale bool) error {
	_, err := e.c.Get(ctx, key, client.GetOptions{Stale: stale})
	return err
}

func (e concordConn) List(ctx context.Context, prefix string) (int, error) {
	n := 0
	for _, err := range e.c.Records(ctx, client.PrefixSelector(prefix), client.ListOptions{Limit: 10_000}) {
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

func (e concordConn) Swap(ctx context.Context, key string, value []byte, version uint64) (uint64, error) {
	if version == 0 {
		r, err := e.c.Get(ctx, key, client.GetOptions{})
		if err != nil {
			return 0, err
		}
		version = r.Record.GetModRevision()
	}
	r, err := client.If(client.ModRevision(key, client.Equal, version)).Then(client.OpPut(key, value, client.PutOptions{NoPrev: true})).Commit(ctx, e.c)
	if err != nil {
		return 0, err
	}
	if !r.Succeeded {
		return 0, errors.New("the compare failed")
	}
	return r.Revision, nil
}

func (e concordConn) Load(ctx context.Context, keys []string, value []byte) error {
	for len(keys) > 0 {
		n := min(500, len(keys))
		puts := make([]*messages.Put, n)
		for i, k := range keys[:n] {
			puts[i] = client.PutOf(k, value, client.PutOptions{NoPrev: true})
		}
		if _, err := e.c.PutMany(ctx, puts...); err != nil {
			return err
		}
		keys = keys[n:]
	}
	return nil
}

func (e concordConn) Watch(ctx context.Context, prefix string, event func([]byte)) error {
	_, err := e.c.WatchFunc(ctx, client.PrefixSelector(prefix), client.WatchOptions{}, func(b client.WatchBatch, _ error) {
		for _, ev := range b.Events {
			event(ev.GetRecord().GetValue())
		}
	})
	return err
}

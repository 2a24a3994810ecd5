package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// etcdSystem runs etcd with its default timers and fsync. Only the quota is raised, so
// that a million keys fit for sure.
type etcdSystem struct {
	members
	bin       string
	endpoints []string
}

func (s *etcdSystem) Start(ctx context.Context, dir string, n int) error {
	s.dir = dir
	p, err := ports(2 * n)
	if err != nil {
		return err
	}
	s.endpoints = p[:n]
	var cluster []string
	for i, peer := range p[n:] {
		cluster = append(cluster, fmt.Sprintf("m%d=http://%s", i, peer))
	}
	for i := range n {
		client, peer := "http://"+p[i], "http://"+p[n+i]
		err := s.run(filepath.Join(s.bin, "etcd"), "--name", fmt.Sprintf("m%d", i), "--data-dir", filepath.Join(dir, fmt.Sprintf("m%d", i)),
			"--initial-cluster", strings.Join(cluster, ","), "--log-level", "warn", "--quota-backend-bytes", "8589934592",
			"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
			"--listen-client-urls", client, "--advertise-client-urls", client)
		if err != nil {
			return err
		}
	}
	return s.ready(ctx)
}

func (s *etcdSystem) ready(ctx context.Context) error {
	for i := range s.endpoints {
		c, err := s.Dial(i)
		if err != nil {
			return err
		}
		err = await(ctx, "etcd", func(ctx context.Context) error { return c.Put(ctx, "ready", nil) })
		c.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *etcdSystem) Restart(ctx context.Context) error {
	s.kill(0)
	if err := s.start(0); err != nil {
		return err
	}
	c, err := s.Dial(0)
	if err != nil {
		return err
	}
	defer c.Close()
	return await(ctx, "etcd", func(ctx context.Context) error { return c.Put(ctx, "ready", nil) })
}

func (s *etcdSystem) Dial(i int) (Conn, error) {
	c, err := clientv3.New(clientv3.Config{
		Endpoints: []string{s.endpoints[i%len(s.endpoints)]}, DialTimeout: 10 * time.Second, Logger: zap.NewNop(),
	})
	return etcdConn{c}, err
}

func (s *etcdSystem) Leader(ctx context.Context) (int, error) {
	for i, e := range s.endpoints {
		c, err := s.Dial(i)
		if err != nil {
			return 0, err
		}
		r, err := c.(etcdConn).c.Status(ctx, e)
		c.Close()
		if err != nil {
			return 0, err
		}
		if r.Leader == r.Header.MemberId {
			return i, nil
		}
	}
	return 0, errors.New("no member leads")
}

type etcdConn struct{ c *clientv3.Client }

func (e etcdConn) Close() { _ = e.c.Close() }

func (e etcdConn) Put(ctx context.Context, key string, value []byte) error {
	_, err := e.c.Put(ctx, key, string(value))
	return err
}

func (e etcdConn) Get(ctx context.Context, key string, stale bool) error {
	var opts []clientv3.OpOption
	if stale {
		opts = append(opts, clientv3.WithSerializable())
	}
	_, err := e.c.Get(ctx, key, opts...)
	return err
}

func (e etcdConn) List(ctx context.Context, prefix string) (int, error) {
	r, err := e.c.Get(ctx, prefix, clientv3.WithPrefix())
	if err != nil {
		return 0, err
	}
	return len(r.Kvs), nil
}

func (e etcdConn) Swap(ctx context.Context, key string, value []byte, version uint64) (uint64, error) {
	if version == 0 {
		r, err := e.c.Get(ctx, key)
		if err != nil {
			return 0, err
		}
		if len(r.Kvs) > 0 {
			version = uint64(r.Kvs[0].ModRevision)
		}
	}
	r, err := e.c.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", int64(version))).Then(clientv3.OpPut(key, string(value))).Commit()
	if err != nil {
		return 0, err
	}
	if !r.Succeeded {
		return 0, errors.New("the compare failed")
	}
	return uint64(r.Header.Revision), nil
}

// etcdTxnOps is how many operations etcd takes in a transaction, by default 128.
const etcdTxnOps = 100

func (e etcdConn) Load(ctx context.Context, keys []string, value []byte) error {
	for len(keys) > 0 {
		n := min(etcdTxnOps, len(keys))
		ops := make([]clientv3.Op, n)
		for i, k := range keys[:n] {
			ops[i] = clientv3.OpPut(k, string(value))
		}
		if _, err := e.c.Txn(ctx).Then(ops...).Commit(); err != nil {
			return err
		}
		keys = keys[n:]
	}
	return nil
}

func (e etcdConn) Watch(ctx context.Context, prefix string, event func([]byte)) error {
	w := e.c.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithCreatedNotify())
	<-w
	go func() {
		for r := range w {
			for _, ev := range r.Events {
				event(ev.Kv.Value)
			}
		}
	}()
	return nil
}

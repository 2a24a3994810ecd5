package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// natsSystem runs JetStream with sync_interval always: by default it acknowledges what
// is not on disk yet. The bucket has as many replicas as there are members. Its
// linearizable read asks the stream's leader, which does not ask the others whether it
// still leads, so it promises less than the other systems' do; the stale one is a direct
// get.
type natsSystem struct {
	members
	bin     string
	clients []string
}

func (s *natsSystem) Start(ctx context.Context, dir string, n int) error {
	s.dir = dir
	p, err := ports(2 * n)
	if err != nil {
		return err
	}
	s.clients = p[:n]
	var routes []string
	for _, r := range p[n:] {
		routes = append(routes, fmt.Sprintf("%q", "nats://"+r))
	}
	for i := range n {
		text := fmt.Sprintf("server_name: m%d\nlisten: %q\njetstream { store_dir: %q, max_file: 20G, max_mem: 1G, sync_interval: always }\n",
			i, p[i], filepath.Join(dir, fmt.Sprintf("m%d", i)))
		if n > 1 {
			text += fmt.Sprintf("cluster { name: peers, listen: %q, routes: [%s] }\n", p[n+i], strings.Join(routes, ", "))
		}
		file := filepath.Join(dir, fmt.Sprintf("m%d.conf", i))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return err
		}
		if err := s.run(filepath.Join(s.bin, "nats-server"), "-c", file); err != nil {
			return err
		}
	}
	return s.ready(ctx)
}

func (s *natsSystem) ready(ctx context.Context) error {
	return await(ctx, "nats", func(ctx context.Context) error {
		nc, err := nats.Connect("nats://"+s.clients[0], nats.Timeout(2*time.Second))
		if err != nil {
			return err
		}
		defer nc.Close()
		js, err := jetstream.New(nc)
		if err != nil {
			return err
		}
		kv, err := js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: natsBucket, Replicas: len(s.clients)})
		if err != nil {
			return err
		}
		_, err = kv.Put(ctx, "ready", nil)
		return err
	})
}

const natsBucket = "peers"

func (s *natsSystem) Restart(ctx context.Context) error {
	s.kill(0)
	if err := s.start(0); err != nil {
		return err
	}
	return s.ready(ctx)
}

func (s *natsSystem) Dial(i int) (Conn, error) {
	nc, err := nats.Connect("nats://"+s.clients[i%len(s.clients)], nats.Timeout(10*time.Second), nats.MaxReconnects(-1))
	if err != nil {
		return nil, err
	}
	c := &natsConn{nc: nc}
	if c.js, err = jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(1_000)); err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		c.kv, err = c.js.KeyValue(ctx, natsBucket)
	}
	if err != nil {
		nc.Close()
		return nil, err
	}
	return c, nil
}

// Leader is the one of the bucket's stream.
func (s *natsSystem) Leader(ctx context.Context) (int, error) {
	c, err := s.Dial(0)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	stream, err := c.(*natsConn).js.Stream(ctx, "KV_"+natsBucket)
	if err != nil {
		return 0, err
	}
	cluster := stream.CachedInfo().Cluster
	if cluster == nil {
		return 0, nil // one server
	}
	i, err := strconv.Atoi(strings.TrimPrefix(cluster.Leader, "m"))
	if err != nil {
		return 0, fmt.Errorf("nats: the leader of the stream is %q", cluster.Leader)
	}
	return i, nil
}

type natsConn struct {
	nc *nats.Conn
	js jetstream.JetStream
	kv jetstream.KeyValue
}

func natsKey(key string) string { return strings.ReplaceAll(key, "/", ".") }

func (e *natsConn) Close() { e.nc.Close() }

func (e *natsConn) Put(ctx context.Context, key string, value []byte) error {
	_, err := e.kv.Put(ctx, natsKey(key), value)
	return err
}

func (e *natsConn) Get(ctx context.Context, key string, stale bool) error {
	if stale {
		_, err := e.kv.Get(ctx, natsKey(key))
		return err
	}
	ask, err := json.Marshal(map[string]string{"last_by_subj": "$KV." + natsBucket + "." + natsKey(key)})
	if err != nil {
		return err
	}
	m, err := e.nc.RequestWithContext(ctx, "$JS.API.STREAM.MSG.GET.KV_"+natsBucket, ask)
	if err != nil {
		return err
	}
	if head := string(m.Data[:min(len(m.Data), 200)]); strings.Contains(head, `"error"`) {
		return errors.New(head)
	}
	return nil
}

func (e *natsConn) List(ctx context.Context, prefix string) (int, error) {
	w, err := e.kv.Watch(ctx, natsKey(prefix)+">")
	if err != nil {
		return 0, err
	}
	defer func() { _ = w.Stop() }()
	n := 0
	for entry := range w.Updates() {
		if entry == nil {
			break // what is there has been told
		}
		n++
	}
	return n, nil
}

func (e *natsConn) Swap(ctx context.Context, key string, value []byte, version uint64) (uint64, error) {
	if version == 0 {
		entry, err := e.kv.Get(ctx, natsKey(key))
		if err != nil {
			return 0, err
		}
		version = entry.Revision()
	}
	return e.kv.Update(ctx, natsKey(key), value, version)
}

func (e *natsConn) Load(ctx context.Context, keys []string, value []byte) error {
	for _, k := range keys {
		if _, err := e.js.PublishAsync("$KV."+natsBucket+"."+natsKey(k), value); err != nil {
			return err
		}
	}
	select {
	case <-e.js.PublishAsyncComplete():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (e *natsConn) Watch(ctx context.Context, prefix string, event func([]byte)) error {
	w, err := e.kv.Watch(ctx, natsKey(prefix)+">", jetstream.UpdatesOnly())
	if err != nil {
		return err
	}
	go func() {
		for entry := range w.Updates() {
			if entry != nil {
				event(entry.Value())
			}
		}
	}()
	return nil
}

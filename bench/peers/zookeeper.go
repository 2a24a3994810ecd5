package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

// zkSystem runs ZooKeeper as Debian packages it (apt-get install zookeeper), with a heap
// of 1 GiB and its default fsync. Its linearizable read is sync and getData; its list
// gives names only; its watches fire once and are set again with a read, so that of
// changes in quick succession only the last is seen.
type zkSystem struct {
	members
	clients []string
}

var zkJars = []string{
	"zookeeper", "zookeeper-jute", "netty-all", "netty-common", "netty-buffer", "netty-transport", "netty-handler", "netty-codec", "netty-resolver",
	"slf4j-api", "slf4j-simple", "log4j-1.2", "metrics-core", "snappy-java", "commons-cli", "commons-io", "jackson-core", "jackson-databind",
	"jackson-annotations", "jetty9-server",
}

func (s *zkSystem) Start(ctx context.Context, dir string, n int) error {
	s.dir = dir
	var path []string
	for _, j := range zkJars {
		path = append(path, "/usr/share/java/"+j+".jar")
	}
	p, err := ports(3 * n)
	if err != nil {
		return err
	}
	s.clients = p[:n]
	for i := range n {
		data := filepath.Join(dir, fmt.Sprintf("m%d", i))
		if err := os.MkdirAll(data, 0o700); err != nil {
			return err
		}
		_, port, _ := strings.Cut(p[i], ":")
		text := fmt.Sprintf("tickTime=2000\ninitLimit=10\nsyncLimit=5\ndataDir=%s\nclientPort=%s\nclientPortAddress=127.0.0.1\nmaxClientCnxns=0\nadmin.enableServer=false\n", data, port)
		for k := range n {
			if n > 1 {
				_, election, _ := strings.Cut(p[2*n+k], ":")
				text += fmt.Sprintf("server.%d=%s:%s\n", k+1, p[n+k], election)
			}
		}
		file := filepath.Join(dir, fmt.Sprintf("m%d.cfg", i))
		err := errors.Join(os.WriteFile(filepath.Join(data, "myid"), []byte(fmt.Sprint(i+1)), 0o600), os.WriteFile(file, []byte(text), 0o600))
		if err != nil {
			return err
		}
		err = s.run("java", "-Xms1g", "-Xmx1g", "-cp", strings.Join(path, ":"), "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
			"org.apache.zookeeper.server.quorum.QuorumPeerMain", file)
		if err != nil {
			return err
		}
	}
	return s.ready(ctx)
}

func (s *zkSystem) ready(ctx context.Context) error {
	for i := range s.clients {
		err := await(ctx, "zookeeper", func(ctx context.Context) error {
			c, err := s.Dial(i)
			if err != nil {
				return err
			}
			defer c.Close()
			return c.Put(ctx, "ready", nil)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Leader is the one that says so, when asked by its four-letter word: the client library
// does not understand the answer of this version.
func (s *zkSystem) Leader(ctx context.Context) (int, error) {
	for i, address := range s.clients {
		c, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", address)
		if err != nil {
			return 0, err
		}
		_ = c.SetDeadline(time.Now().Add(5 * time.Second))
		_, err = c.Write([]byte("srvr"))
		var answer []byte
		if err == nil {
			answer, err = io.ReadAll(c)
		}
		c.Close()
		if err != nil {
			return 0, err
		}
		if strings.Contains(string(answer), "Mode: leader") || strings.Contains(string(answer), "Mode: standalone") {
			return i, nil
		}
	}
	return 0, errors.New("zookeeper: no member says that it leads")
}

func (s *zkSystem) Restart(ctx context.Context) error {
	s.kill(0)
	if err := s.start(0); err != nil {
		return err
	}
	return s.ready(ctx)
}

type zkQuiet struct{}

func (zkQuiet) Printf(string, ...any) {}

func (s *zkSystem) Dial(i int) (Conn, error) {
	c, events, err := zk.Connect([]string{s.clients[i%len(s.clients)]}, 10*time.Second, zk.WithLogger(zkQuiet{}))
	if err != nil {
		return nil, err
	}
	late := time.After(10 * time.Second)
	for {
		select {
		case e := <-events:
			if e.State != zk.StateHasSession {
				continue
			}
			go func() {
				for range events {
				}
			}()
			return zkConn{c}, nil
		case <-late:
			c.Close()
			return nil, errors.New("zookeeper: no session")
		}
	}
}

type zkConn struct{ c *zk.Conn }

func (e zkConn) Close() { e.c.Close() }

func (e zkConn) Put(_ context.Context, key string, value []byte) error {
	_, err := e.c.Set("/"+key, value, -1)
	if !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	if parent, _, ok := strings.Cut(key, "/"); ok {
		_, _ = e.c.Create("/"+parent, nil, 0, zk.WorldACL(zk.PermAll))
	}
	if _, err = e.c.Create("/"+key, value, 0, zk.WorldACL(zk.PermAll)); errors.Is(err, zk.ErrNodeExists) {
		err = nil
	}
	return err
}

func (e zkConn) Get(_ context.Context, key string, stale bool) error {
	if !stale {
		if _, err := e.c.Sync("/" + key); err != nil {
			return err
		}
	}
	_, _, err := e.c.Get("/" + key)
	return err
}

func (e zkConn) List(_ context.Context, prefix string) (int, error) {
	names, _, err := e.c.Children("/" + strings.TrimSuffix(prefix, "/"))
	return len(names), err
}

// Swap takes ZooKeeper's version plus one, so that 0 can mean that it is not known.
func (e zkConn) Swap(_ context.Context, key string, value []byte, version uint64) (uint64, error) {
	if version == 0 {
		_, stat, err := e.c.Get("/" + key)
		if err != nil {
			return 0, err
		}
		version = uint64(stat.Version) + 1
	}
	_, err := e.c.Multi(&zk.CheckVersionRequest{Path: "/" + key, Version: int32(version - 1)}, &zk.SetDataRequest{Path: "/" + key, Data: value, Version: -1})
	return version + 1, err
}

func (e zkConn) Load(_ context.Context, keys []string, value []byte) error {
	if len(keys) > 0 {
		parent, _, _ := strings.Cut(keys[0], "/")
		_, _ = e.c.Create("/"+parent, nil, 0, zk.WorldACL(zk.PermAll))
	}
	for len(keys) > 0 {
		n := min(100, len(keys))
		ops := make([]any, n)
		for i, k := range keys[:n] {
			ops[i] = &zk.CreateRequest{Path: "/" + k, Data: value, Acl: zk.WorldACL(zk.PermAll)}
		}
		if _, err := e.c.Multi(ops...); err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return err
		}
		keys = keys[n:]
	}
	return nil
}

func (e zkConn) Watch(ctx context.Context, prefix string, event func([]byte)) error {
	key := "/" + prefix + watchedKey
	_, _, fired, err := e.c.GetW(key)
	if err != nil {
		return err
	}
	go func() {
		for ctx.Err() == nil {
			select {
			case <-fired:
			case <-ctx.Done():
				return
			}
			var value []byte
			if value, _, fired, err = e.c.GetW(key); err != nil {
				return
			}
			event(value)
		}
	}()
	return nil
}

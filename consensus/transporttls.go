package consensus

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"
)

// lookEvery is how often the files of certificates are looked at, at most.
const lookEvery = time.Second

// raftCerts follows the files of a replica's certificate, key and authority: what
// replaces them counts from the next handshake on. Files that cannot be used, as in the
// middle of being replaced, leave the last good ones in place.
type raftCerts struct {
	ca, cert, key string
	every         time.Duration
	logger        *slog.Logger

	mu     sync.Mutex
	looked time.Time
	stamp  string // of what is loaded
	bad    string // what was last complained of
	pair   tls.Certificate
	pool   *x509.CertPool
}

// newRaftCerts returns nil when cfg asks for no TLS.
func newRaftCerts(cfg DragonboatConfig) (*raftCerts, error) {
	if !cfg.tls() {
		return nil, nil
	}
	c := &raftCerts{ca: cfg.CAFile, cert: cfg.CertFile, key: cfg.KeyFile, every: lookEvery, logger: cfg.Logger, looked: time.Now()}
	stamp, err := c.look()
	if err == nil {
		err = c.load(stamp)
	}
	return c, err
}

// look returns what differs once a file does.
func (c *raftCerts) look() (string, error) {
	stamp := ""
	for _, path := range []string{c.ca, c.cert, c.key} {
		info, err := os.Stat(path)
		if err != nil {
			return "", err
		}
		stamp += fmt.Sprint(info.ModTime().UnixNano(), " ", info.Size(), ";")
	}
	return stamp, nil
}

func (c *raftCerts) load(stamp string) error {
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(c.ca)
	if err != nil {
		return err
	}
	pool, err := poolOf(text)
	if err != nil {
		return fmt.Errorf("%s: %w", c.ca, err)
	}
	c.pair, c.pool, c.stamp, c.bad = pair, pool, stamp, ""
	return nil
}

// poolOf refuses a text with a certificate that is not whole: the file may be half written.
func poolOf(text []byte) (*x509.CertPool, error) {
	pool, n := x509.NewCertPool(), 0
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		pool.AddCert(c)
		n++
	}
	begun := bytes.Count(text, []byte("-----BEGIN CERTIFICATE-----"))
	if last := text[bytes.LastIndexByte(text, '\n')+1:]; bytes.HasPrefix(last, []byte("-")) && bytes.HasPrefix([]byte("-----BEGIN CERTIFICATE-----"), last) {
		begun = max(begun, n+1) // cut off in its first line
	}
	if n == 0 || n != begun {
		return nil, fmt.Errorf("%d of %d certificates are whole", n, begun)
	}
	return pool, nil
}

func (c *raftCerts) current() (tls.Certificate, *x509.CertPool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.looked) >= c.every {
		c.looked = now
		stamp, err := c.look()
		if err == nil && stamp != c.stamp {
			if err = c.load(stamp); err == nil {
				c.logger.Info("certificates of Raft were replaced", "cert", c.cert)
			}
		}
		if err != nil && c.bad != err.Error() {
			c.bad = err.Error()
			c.logger.Warn("certificates of Raft cannot be replaced: the old ones stay", "cert", c.cert, "error", err)
		}
	}
	return c.pair, c.pool
}

// server is the configuration of a listener.
func (c *raftCerts) server() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			pair, pool := c.current()
			return &tls.Config{
				MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair},
				ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool,
			}, nil
		},
	}
}

// client is the configuration of one connection to target, host:port.
func (c *raftCerts) client(target string) (*tls.Config, error) {
	host, _, err := net.SplitHostPort(target)
	if err != nil {
		return nil, err
	}
	pair, pool := c.current()
	return &tls.Config{
		MinVersion: tls.VersionTLS13, ServerName: host,
		Certificates: []tls.Certificate{pair}, RootCAs: pool,
	}, nil
}

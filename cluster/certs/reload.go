package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// Files are the PEM files of an endpoint. What is made of them follows them: a
// certificate that is replaced, or an authority that is added, counts from the next
// handshake on, a second later at most. Connections that are open stay open. Files that
// cannot be read, or do not belong together, as in the middle of being replaced, are
// looked at again; until then the last good ones count.
type Files struct {
	// Cert and Key are the endpoint's own. A dialer may have none.
	Cert, Key string
	// CA is the authority of the other side. Empty: clients are not asked for
	// certificates; a dialer must have one.
	CA string
	// Optional lets clients in that show no certificate: they say otherwise who they are.
	Optional bool
	// Logger hears of files that cannot be used. Default: nobody.
	Logger *slog.Logger
}

// lookEvery is how often the files are looked at, at most.
const lookEvery = time.Second

// follower is what the files held when they were last good.
type follower struct {
	files Files

	mu     sync.Mutex
	looked time.Time
	stamp  string // of what is loaded
	bad    string // of what could not be
	pair   *tls.Certificate
	pool   *x509.CertPool
}

func follow(f Files) (*follower, error) {
	if f.Logger == nil {
		f.Logger = slog.New(slog.DiscardHandler)
	}
	w := &follower{files: f, looked: time.Now()}
	stamp, err := w.look()
	if err == nil {
		err = w.load(stamp)
	}
	return w, err
}

// look returns what changes when a file does.
func (w *follower) look() (stamp string, err error) {
	for _, path := range []string{w.files.Cert, w.files.Key, w.files.CA} {
		if path == "" {
			continue
		}
		info, err := os.Stat(path)
		if err != nil {
			return "", err
		}
		stamp += fmt.Sprintf("%d %d;", info.ModTime().UnixNano(), info.Size())
	}
	return stamp, nil
}

func (w *follower) load(stamp string) error {
	var pair *tls.Certificate
	if w.files.Cert != "" || w.files.Key != "" {
		p, err := tls.LoadX509KeyPair(w.files.Cert, w.files.Key)
		if err != nil {
			return err
		}
		pair = &p
	}
	var pool *x509.CertPool
	if w.files.CA != "" {
		pem, err := os.ReadFile(w.files.CA)
		if err == nil {
			pool, err = PoolOf(pem)
		}
		if err != nil {
			return err
		}
	}
	w.pair, w.pool, w.stamp, w.bad = pair, pool, stamp, ""
	return nil
}

// errNoCertificate is what a listener without a certificate gets.
var errNoCertificate = errors.New("certs: a listener needs a certificate and a key")

// current returns the certificate, nil if there is none, and the authority that count now.
func (w *follower) current() (*tls.Certificate, *x509.CertPool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := time.Now(); now.Sub(w.looked) >= lookEvery {
		w.looked = now
		stamp, err := w.look()
		if err == nil && stamp != w.stamp {
			if err = w.load(stamp); err == nil {
				w.files.Logger.Info("certificates were replaced", "cert", w.files.Cert)
			}
		}
		if err != nil && w.bad != stamp+err.Error() {
			w.bad = stamp + err.Error()
			w.files.Logger.Warn("certificates cannot be replaced: the old ones stay", "cert", w.files.Cert, "error", err)
		}
	}
	return w.pair, w.pool
}

// serving follows files that must hold a certificate.
func (f Files) serving() (*follower, error) {
	if f.Cert == "" && f.Key == "" {
		return nil, errNoCertificate
	}
	return follow(f)
}

// Follow returns what gives the certificate and the authority that count now.
func (f Files) Follow() (func() (tls.Certificate, *x509.CertPool), error) {
	w, err := f.serving()
	if err != nil {
		return nil, err
	}
	return func() (tls.Certificate, *x509.CertPool) {
		pair, pool := w.current()
		return *pair, pool
	}, nil
}

// ServerTLS is the configuration of a listener, as the function of this name makes it,
// that follows the files.
func (f Files) ServerTLS() (*tls.Config, error) {
	w, err := f.serving()
	if err != nil {
		return nil, err
	}
	c := w.server()
	c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		now := w.server()
		now.NextProtos = []string{"h2"} // what gRPC adds to the outer one
		return now, nil
	}
	return c, nil
}

func (w *follower) server() *tls.Config {
	pair, pool := w.current()
	c := ServerTLS(*pair, pool)
	if w.files.Optional && pool != nil {
		c.ClientAuth = tls.VerifyClientCertIfGiven
	}
	return c
}

// ClientTLS returns what makes the configuration of a dialer, as the function of this name
// does, that counts now. A dialer asks for it for each connection: crypto/tls has no place
// for an authority that changes.
func (f Files) ClientTLS() (func() *tls.Config, error) {
	if f.CA == "" {
		return nil, errors.New("certs: a dialer needs an authority")
	}
	w, err := follow(f)
	if err != nil {
		return nil, err
	}
	return func() *tls.Config {
		pair, pool := w.current()
		return ClientTLS(pool, pair)
	}, nil
}

package certs

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
)

// TLS returns the pair as crypto/tls wants it.
func (p Pair) TLS() (tls.Certificate, error) { return tls.X509KeyPair(p.Cert, p.Key) }

// Save writes name.crt and name.key into dir, the key readable by its owner
// alone. It does not overwrite: a lost authority cannot be had back.
func (p Pair) Save(dir, name string) error {
	if err := writeNew(filepath.Join(dir, name+".key"), p.Key, 0o600); err != nil {
		return err
	}
	return writeNew(filepath.Join(dir, name+".crt"), p.Cert, 0o644)
}

// Load reads what Save wrote.
func Load(dir, name string) (Pair, error) {
	cert, err := os.ReadFile(filepath.Join(dir, name+".crt"))
	if err != nil {
		return Pair{}, err
	}
	key, err := os.ReadFile(filepath.Join(dir, name+".key"))
	if err != nil {
		return Pair{}, err
	}
	return Pair{Cert: cert, Key: key}, nil
}

func writeNew(path string, data []byte, mode os.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// PoolOf returns a pool of the certificates in a PEM text. One that is not whole makes it an
// error: the file may be half written, and a pool without an authority that belongs there
// would refuse whom it vouches for.
func PoolOf(text []byte) (*x509.CertPool, error) {
	pool, n := x509.NewCertPool(), 0
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certs: certificate %d: %w", n+1, err)
		}
		pool.AddCert(c)
		n++
	}
	begun := bytes.Count(text, []byte("-----BEGIN CERTIFICATE-----"))
	if last := text[bytes.LastIndexByte(text, '\n')+1:]; bytes.HasPrefix(last, []byte("-")) && bytes.HasPrefix([]byte("-----BEGIN CERTIFICATE-----"), last) {
		begun = max(begun, n+1) // cut off in its first line
	}
	switch {
	case n == 0:
		return nil, errors.New("certs: no certificate in the text")
	case n != begun:
		return nil, fmt.Errorf("certs: %d of %d certificates are whole", n, begun)
	}
	return pool, nil
}

// ServerTLS is the configuration of a listener: TLS 1.3, and when clients is not
// nil every client must show a certificate of that pool.
func ServerTLS(cert tls.Certificate, clients *x509.CertPool) *tls.Config {
	c := &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert}}
	if clients != nil {
		c.ClientAuth = tls.RequireAndVerifyClientCert
		c.ClientCAs = clients
	}
	return c
}

// ClientTLS is the configuration of a dialer: TLS 1.3, servers of this pool only,
// showing cert unless it is nil.
func ClientTLS(roots *x509.CertPool, cert *tls.Certificate) *tls.Config {
	c := &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: roots}
	if cert != nil {
		c.Certificates = []tls.Certificate{*cert}
	}
	return c
}

// NamesAddress reports an error unless the certificate speaks for the actor
// address, host:port: by its URI concord://host:port or by a common name that is
// the address. With anyPort a certificate for the host alone is enough, and
// services on one host can then speak for each other.
func NamesAddress(cert *x509.Certificate, address string, anyPort bool) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" || port == "" {
		return fmt.Errorf("certs: address %q is not host:port", address)
	}
	for _, u := range cert.URIs {
		if u.Scheme == AddressScheme && u.Host == address && u.Path == "" {
			return nil
		}
	}
	if cert.Subject.CommonName == address {
		return nil
	}
	if anyPort && cert.VerifyHostname(host) == nil {
		return nil
	}
	return fmt.Errorf("certs: the certificate of %q does not name %s", cert.Subject.CommonName, address)
}

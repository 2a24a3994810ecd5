// Package certs makes the certificates of a development or test cluster: an
// authority, and certificates for nodes and clients with the names that the
// transports check. Certificates of any other authority work as well, if they
// carry the same names.
package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"time"
)

// AddressScheme is the scheme of the URI that names an actor address in a
// certificate: concord://host:port.
const AddressScheme = "concord"

// validDefault is how long certificates hold unless the caller says otherwise.
const validDefault = 365 * 24 * time.Hour

// backdate lets a certificate hold on machines whose clock is a little behind.
const backdate = 5 * time.Minute

// Authority signs certificates. It is for development: its key is in memory and,
// if saved, in a file.
type Authority struct {
	cert    *x509.Certificate
	key     crypto.Signer
	certPEM []byte
	keyPEM  []byte
}

// Pair is a certificate with its private key, both PEM.
type Pair struct {
	Cert []byte
	Key  []byte
}

// Request says what a certificate is for.
type Request struct {
	// Name is the common name: who this is, as operators see it. Required.
	Name string
	// Hosts are DNS names and IP addresses that the holder is dialled by.
	Hosts []string
	// Addresses are actor addresses, host:port, that the holder speaks for: each
	// adds its host and its URI. Needed by protoactor endpoints.
	Addresses []string
	// Valid is how long it holds; default a year.
	Valid time.Duration
}

// NewAuthority makes an authority that holds for ten years.
func NewAuthority(name string) (*Authority, error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return nil, err
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(10 * validDefault),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	return newAuthority(pemOf("CERTIFICATE", der), keyPEM, der, key)
}

// LoadAuthority returns the authority of a saved pair.
func LoadAuthority(p Pair) (*Authority, error) {
	pair, err := tls.X509KeyPair(p.Cert, p.Key)
	if err != nil {
		return nil, err
	}
	key, ok := pair.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, errors.New("certs: the authority's key cannot sign")
	}
	a, err := newAuthority(p.Cert, p.Key, pair.Certificate[0], key)
	if err != nil {
		return nil, err
	}
	if !a.cert.IsCA {
		return nil, fmt.Errorf("certs: %q is no authority", a.cert.Subject.CommonName)
	}
	return a, nil
}

func newAuthority(certPEM, keyPEM, der []byte, key crypto.Signer) (*Authority, error) {
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &Authority{cert: cert, key: key, certPEM: certPEM, keyPEM: keyPEM}, nil
}

// Pair returns the authority's own certificate and key.
func (a *Authority) Pair() Pair { return Pair{Cert: a.certPEM, Key: a.keyPEM} }

// Pool returns a pool with this authority alone.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// Issue signs a new certificate, for servers and clients alike: nodes are both.
func (a *Authority) Issue(r Request) (Pair, error) {
	if r.Name == "" {
		return Pair{}, errors.New("certs: a certificate needs a name")
	}
	if r.Valid <= 0 {
		r.Valid = validDefault
	}
	serial, err := newSerial()
	if err != nil {
		return Pair{}, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: r.Name},
		NotBefore:    now.Add(-backdate),
		NotAfter:     now.Add(r.Valid),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if err := addNames(template, r); err != nil {
		return Pair{}, err
	}
	key, keyPEM, err := newKey()
	if err != nil {
		return Pair{}, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return Pair{}, err
	}
	return Pair{Cert: pemOf("CERTIFICATE", der), Key: keyPEM}, nil
}

func addNames(t *x509.Certificate, r Request) error {
	seen := make(map[string]bool)
	addHost := func(h string) {
		if h == "" || seen[h] {
			return
		}
		seen[h] = true
		if ip := net.ParseIP(h); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, h)
		}
	}
	for _, h := range r.Hosts {
		addHost(h)
	}
	for _, address := range r.Addresses {
		host, port, err := net.SplitHostPort(address)
		if err != nil || host == "" || port == "" {
			return fmt.Errorf("certs: address %q is not host:port", address)
		}
		addHost(host)
		t.URIs = append(t.URIs, &url.URL{Scheme: AddressScheme, Host: address})
	}
	return nil
}

func newKey() (crypto.Signer, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	return key, pemOf("PRIVATE KEY", der), nil
}

func newSerial() (*big.Int, error) {
	return rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
}

func pemOf(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

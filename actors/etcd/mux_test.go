package etcd

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"
)

// said is a connection whose client has said something and then no more.
type said struct {
	net.Conn
	r io.Reader
}

func (s said) Read(b []byte) (int, error) { return s.r.Read(b) }

// FuzzSniff: a connection goes to gRPC if and only if it begins as HTTP/2 does, to HTTP as
// soon as it cannot any more, and whoever gets it reads all that was said.
func FuzzSniff(f *testing.F) {
	for _, s := range []string{"", "P", "PRI * HTTP/2.", preface, preface + "\r\n\r\nSM\r\n\r\n\x00", "GET / HTTP/1.1\r\n\r\n", "POST /v3/kv/range", "PRI * HTTP/1.1", "\x16\x03\x01"} {
		f.Add([]byte(s))
	}
	m := newMux(nil, Config{}.withDefaults())
	f.Fuzz(func(t *testing.T, data []byte) {
		to, c, err := m.sniff(said{r: bytes.NewReader(data)})
		common := 0
		for common < len(data) && common < len(preface) && data[common] == preface[common] {
			common++
		}
		switch {
		case common == len(preface):
			if err != nil || to != m.grpc {
				t.Fatalf("%q does not go to gRPC: %v", data, err)
			}
		case common < len(data):
			if err != nil || to != m.http {
				t.Fatalf("%q does not go to HTTP: %v", data, err)
			}
		default:
			if !errors.Is(err, io.EOF) {
				t.Fatalf("%q, and no more: %v", data, err)
			}
			return
		}
		if all, err := io.ReadAll(c); err != nil || !bytes.Equal(all, data) {
			t.Fatalf("%q was said and %q read: %v", data, all, err)
		}
	})
}

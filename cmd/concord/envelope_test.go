package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// TestEnvelope: a backup reads the same with and without the envelope of etcd's clients;
// one that was altered is left as it is, for the reader to refuse.
func TestEnvelope(t *testing.T) {
	wrap := func(backup []byte) []byte {
		padded := append([]byte(nil), backup...)
		n := envelopeBlock - len(backup)%envelopeBlock
		if n < 8 {
			n += envelopeBlock
		}
		padded = append(padded, make([]byte, n)...)
		binary.BigEndian.PutUint64(padded[len(padded)-8:], uint64(len(backup)))
		sum := sha256.Sum256(padded)
		return append(padded, sum[:]...)
	}
	read := func(file []byte) []byte {
		t.Helper()
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := openBackup(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		b, err := io.ReadAll(f)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for _, n := range []int{1, 503, 504, 505, 511, 512, 513, 100_000} {
		backup := bytes.Repeat([]byte{7}, n)
		if got := read(backup); !bytes.Equal(got, backup) {
			t.Errorf("%d bytes without an envelope: %d", n, len(got))
		}
		file := wrap(backup)
		if got := read(file); !bytes.Equal(got, backup) {
			t.Errorf("%d bytes in an envelope: %d", n, len(got))
		}
		file[len(file)/2] ^= 1
		if got := read(file); !bytes.Equal(got, file) {
			t.Errorf("%d bytes in an altered envelope: %d of %d", n, len(got), len(file))
		}
	}
	if _, err := openBackup(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a file that is not there")
	}
}

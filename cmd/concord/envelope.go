package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"io"
	"os"
)

// A backup that a client of etcd has saved lies in an envelope: zeros up to a multiple of
// 512 bytes, the last 8 of which are the backup's length, and SHA-256 of all that.
const envelopeBlock = 512

// openBackup opens a backup and takes the envelope off, if it has one. Files of ours have
// none: that the checksum at the end fits cannot be chance.
func openBackup(path string) (io.ReadCloser, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	length, err := enclosed(f)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		_ = f.Close() // nothing was written
		return nil, err
	}
	if length == 0 {
		return f, nil
	}
	return &limited{io.LimitReader(f, length), f}, nil
}

type limited struct {
	io.Reader
	io.Closer
}

// enclosed returns the length of the backup in an envelope, which is never empty; 0 for a
// file without one.
func enclosed(f *os.File) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	body := info.Size() - sha256.Size
	if body < envelopeBlock || body%envelopeBlock != 0 {
		return 0, nil
	}
	var tail [8 + sha256.Size]byte
	if _, err := f.ReadAt(tail[:], body-8); err != nil {
		return 0, err
	}
	length := binary.BigEndian.Uint64(tail[:8])
	if length > uint64(body)-8 {
		return 0, nil
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, io.LimitReader(f, body)); err != nil {
		return 0, err
	}
	if !bytes.Equal(sum.Sum(nil), tail[8:]) {
		return 0, nil
	}
	return int64(length), nil
}

package etcd

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"hash"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/concord-kv/concord/messages"
)

// The snapshot that etcd's clients save is a backup of ours in an envelope: zeros up to a
// multiple of 512 bytes, the last 8 of which are the length of the backup, then SHA-256 of
// all that. etcd's client looks for this form; `concord restore` takes the envelope off.
const (
	envelopeBlock  = 512
	envelopeLength = 8
)

// Snapshot sends a backup of this node. How long it will be is not known before it has
// been made: remaining_bytes is 1 until the end.
func (s *maintenanceServer) Snapshot(_ *pb.SnapshotRequest, stream grpc.ServerStreamingServer[pb.SnapshotResponse]) error {
	e := &envelope{stream: stream, sum: sha256.New()}
	if err := s.backup(stream.Context(), e); err != nil {
		return toStatus(clientOf(stream.Context()).refusal(err))
	}
	tail := envelopeBlock - int(e.sent%envelopeBlock)
	if tail < envelopeLength {
		tail += envelopeBlock
	}
	padding := make([]byte, tail)
	binary.BigEndian.PutUint64(padding[tail-envelopeLength:], uint64(e.sent))
	if err := e.send(padding, 1); err != nil {
		return err
	}
	return e.send(e.sum.Sum(nil), 0)
}

type envelope struct {
	stream grpc.ServerStreamingServer[pb.SnapshotResponse]
	header *pb.ResponseHeader
	sum    hash.Hash
	sent   int64
}

func (e *envelope) send(b []byte, remaining uint64) error {
	e.sum.Write(b)
	e.sent += int64(len(b))
	return e.stream.Send(&pb.SnapshotResponse{Header: e.header, Blob: b, RemainingBytes: remaining, Version: apiVersion})
}

// backup reads a backup piece by piece. All of it is read on one connection: it belongs to
// this node.
func (s *Server) backup(ctx context.Context, e *envelope) error {
	c, err := s.sessions.get(ctx)
	if err != nil {
		return err
	}
	var id uint64
	for piece := uint64(0); ; piece++ {
		r, err := c.do(ctx, &messages.Operation{Operation: &messages.Operation_Admin{Admin: &messages.AdminRequest{
			Request: &messages.AdminRequest_Backup{Backup: &messages.BackupRequest{BackupId: id, Piece: piece}},
		}}})
		if err != nil {
			return err
		}
		b := r.GetAdmin().GetBackup()
		if e.header == nil {
			e.header = s.header(b.Revision)
		}
		id = b.BackupId
		if len(b.Data) > 0 {
			if err := e.send(b.Data, 1); err != nil {
				s.abandon(c, id)
				return err
			}
		}
		if b.Last {
			return nil
		}
	}
}

// abandon gives up a backup that the client does not want any more.
func (s *Server) abandon(c *conn, id uint64) {
	// Nobody waits for the answer, which is that it is gone.
	_, _, _ = c.start(&messages.Operation{Operation: &messages.Operation_Admin{Admin: &messages.AdminRequest{
		Request: &messages.AdminRequest_Backup{Backup: &messages.BackupRequest{BackupId: id, Cancel: true}},
	}}})
}

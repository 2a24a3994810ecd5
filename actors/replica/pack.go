package replica

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/concord-kv/concord/messages"
)

// Field numbers of messages.Entry and messages.Command that are written here by
// hand: a command is encoded once, when it is admitted, and its stamp, which is
// known only when the entry is packed, is appended. A test holds this to what
// proto.Marshal means.
const (
	entryEpochField    protowire.Number = 1
	entryReplicaField  protowire.Number = 2
	entryNonceField    protowire.Number = 3
	entryCommandsField protowire.Number = 4
	commandStampField  protowire.Number = 1
)

// packer builds one entry at a time in a buffer that it keeps.
type packer struct {
	buf []byte
}

// begin starts an entry of the owner of the lease clock.
func (p *packer) begin(epoch, replicaID, nonce uint64) {
	p.buf = p.buf[:0]
	if cap(p.buf) > 4*messages.EntryBytesMax {
		p.buf = nil // one huge value must not be kept for ever
	}
	p.field(entryEpochField, epoch)
	p.field(entryReplicaField, replicaID)
	p.field(entryNonceField, nonce)
}

// add appends an encoded command with its stamp; 0 for none.
func (p *packer) add(command []byte, stampMs int64) {
	size := len(command)
	if stampMs != 0 {
		size += protowire.SizeTag(commandStampField) + protowire.SizeVarint(uint64(stampMs))
	}
	p.buf = protowire.AppendTag(p.buf, entryCommandsField, protowire.BytesType)
	p.buf = protowire.AppendVarint(p.buf, uint64(size))
	p.buf = append(p.buf, command...)
	if stampMs != 0 {
		p.buf = protowire.AppendTag(p.buf, commandStampField, protowire.VarintType)
		p.buf = protowire.AppendVarint(p.buf, uint64(stampMs))
	}
}

// bytes is the entry so far; the next begin overwrites it.
func (p *packer) bytes() []byte { return p.buf }

func (p *packer) field(n protowire.Number, v uint64) {
	if v == 0 {
		return
	}
	p.buf = protowire.AppendTag(p.buf, n, protowire.VarintType)
	p.buf = protowire.AppendVarint(p.buf, v)
}

// encodeClaim encodes the one command that carries no stamp.
func encodeClaim(claim *messages.ClaimClock) []byte {
	b, err := proto.Marshal(&messages.Command{Op: &messages.Command_ClaimClock{ClaimClock: claim}})
	if err != nil {
		panic(fmt.Sprintf("replica: a claim that does not encode: %v", err))
	}
	return b
}

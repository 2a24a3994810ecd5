package sim

import (
	"strings"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/messages"
)

var clientVerbs = []Verb{
	{"client open", "[NODE...]", "starts a client that knows these nodes, or all", func(w *World, a args) error {
		if w.client(a.word(0)) != nil {
			return nil
		}
		endpoints := a.words[1:]
		if len(endpoints) == 0 {
			for _, n := range w.nodes {
				endpoints = append(endpoints, endpoint(n.id))
			}
		}
		w.open(a.word(0), endpoints)
		return nil
	}},
	{"client close", "", "ends a client in order", onClient(func(_ *World, c *Client, _ args) error { c.close(); return nil })},
	{"client pause", "", "SIGSTOP: its clock goes on, it does nothing", onClient(func(_ *World, c *Client, _ args) error { c.paused = true; return nil })},
	{"client resume", "", "SIGCONT", onClient(func(_ *World, c *Client, _ args) error { c.paused = c.crashed; return nil })},
	{"client rate", "F", "makes its clock run at F times the right rate", onClient(func(_ *World, c *Client, a args) error {
		c.clock.mu.Lock()
		defer c.clock.mu.Unlock()
		c.clock.hand.setRate(parseRate(a.word(0)))
		return nil
	})},
	{"client get", "KEY [stale=1] [revision=N]", "reads a key", operation(func(_ *Client, a args, op *Op) *messages.Operation {
		q := &messages.Query{Query: &messages.Query_Get{Get: &messages.GetRequest{Key: []byte(op.Key), Revision: a.number("revision")}}}
		if a.named["stale"] == "" && a.named["revision"] == "" {
			op.Kind = OpGet
		} else if a.named["stale"] != "" {
			q.Consistency = messages.Consistency_CONSISTENCY_STALE
		}
		return query(q)
	})},
	{"client list", "PREFIX", "lists keys", operation(func(_ *Client, a args, _ *Op) *messages.Operation {
		return query(&messages.Query{Query: &messages.Query_List{List: &messages.ListRequest{Selector: prefix(a.word(0))}}})
	})},
	{"client changes", "PREFIX after=REVISION[.OP] [limit=N]", "reads events after a position", operation(func(_ *Client, a args, _ *Op) *messages.Operation {
		return query(&messages.Query{Query: &messages.Query_Changes{Changes: &messages.ChangesRequest{
			Selector: prefix(a.word(0)), After: position(a.named["after"]), Limit: uint32(a.number("limit")),
		}}})
	})},
	{"client put", "KEY VALUE [lease=NAME] [ttl=DURATION] [keep-lease=1]", "writes a key", operation(func(c *Client, a args, op *Op) *messages.Operation {
		op.Kind, op.Value = OpPut, a.word(1)
		p := &messages.Put{Key: []byte(op.Key), Value: []byte(op.Value), TtlMs: a.duration("ttl").Milliseconds(), IgnoreLease: a.named["keep-lease"] != ""}
		if a.named["lease"] != "" || p.TtlMs != 0 {
			c.world.history.setApart(op.Key)
		}
		if name := a.named["lease"]; name != "" {
			if p.LeaseId = c.lease(name); p.LeaseId == 0 {
				return nil
			}
		}
		return write(&messages.Write{Op: &messages.Write_Put{Put: p}})
	})},
	{"client pair", "KEY VALUE KEY VALUE", "writes two keys in one transaction", operation(func(_ *Client, a args, op *Op) *messages.Operation {
		op.Kind, op.Value, op.Key2, op.Value2 = OpPair, a.word(1), a.word(2), a.word(3)
		return write(&messages.Write{Op: &messages.Write_Txn{Txn: &messages.Txn{Success: []*messages.TxnOp{
			client.OpPut(op.Key, []byte(op.Value), client.PutOptions{}), client.OpPut(op.Key2, []byte(op.Value2), client.PutOptions{}),
		}}}})
	})},
	{"client txn", "put KEY VALUE | delete KEY ...", "runs operations in one transaction; words are separated by |", operation(func(c *Client, a args, _ *Op) *messages.Operation {
		t := &messages.Txn{}
		for _, part := range strings.Split(strings.Join(a.words, " "), "|") {
			f := strings.Fields(part)
			if len(f) > 1 {
				c.world.history.setApart(f[1])
			}
			switch {
			case len(f) == 3 && f[0] == "put":
				t.Success = append(t.Success, client.OpPut(f[1], []byte(f[2]), client.PutOptions{}))
			case len(f) == 4 && f[0] == "put":
				t.Success = append(t.Success, client.OpPut(f[1], []byte(f[2]), client.PutOptions{LeaseID: c.lease(f[3])}))
			case len(f) == 2 && f[0] == "delete":
				t.Success = append(t.Success, client.OpDelete(key(f[1]), client.DeleteOptions{}))
			}
		}
		return write(&messages.Write{Op: &messages.Write_Txn{Txn: t}})
	})},
	{"client swap", "KEY VALUE", "writes a key if it is as this client saw it last", operation(func(c *Client, a args, op *Op) *messages.Operation {
		op.Kind, op.Value, op.ModWas = OpSwap, a.word(1), c.world.lastMod(c.name, a.word(0))
		return write(&messages.Write{Op: &messages.Write_Txn{Txn: &messages.Txn{
			Compares: []*messages.Compare{client.ModRevision(op.Key, client.Equal, op.ModWas)},
			Success:  []*messages.TxnOp{client.OpPut(op.Key, []byte(op.Value), client.PutOptions{})},
		}}})
	})},
	{"client create", "KEY VALUE", "writes a key if it does not exist", operation(func(_ *Client, a args, op *Op) *messages.Operation {
		op.Kind, op.Value = OpSwap, a.word(1)
		return write(&messages.Write{Op: &messages.Write_Txn{Txn: &messages.Txn{
			Compares: []*messages.Compare{client.CreateRevision(op.Key, client.Equal, 0)},
			Success:  []*messages.TxnOp{client.OpPut(op.Key, []byte(op.Value), client.PutOptions{})},
		}}})
	})},
	{"client delete", "KEY", "deletes a key", operation(func(_ *Client, _ args, op *Op) *messages.Operation {
		op.Kind = OpDelete
		return write(&messages.Write{Op: &messages.Write_Delete{Delete: &messages.Delete{Selector: key(op.Key)}}})
	})},
	{"client grant", "NAME ttl=DURATION", "grants a lease that the script calls by a name", operation(func(_ *Client, a args, _ *Op) *messages.Operation {
		return write(&messages.Write{Op: &messages.Write_GrantLease{GrantLease: &messages.GrantLease{TtlMs: a.duration("ttl").Milliseconds()}}})
	})},
	{"client keep", "NAME", "keeps a lease alive, once", operation(func(c *Client, a args, _ *Op) *messages.Operation {
		return onLease(c, a, func(id uint64) *messages.Write {
			return &messages.Write{Op: &messages.Write_KeepAliveLease{KeepAliveLease: &messages.KeepAliveLease{LeaseId: id}}}
		})
	})},
	{"client revoke", "NAME", "revokes a lease", operation(func(c *Client, a args, _ *Op) *messages.Operation {
		return onLease(c, a, func(id uint64) *messages.Write {
			return &messages.Write{Op: &messages.Write_RevokeLease{RevokeLease: &messages.RevokeLease{LeaseId: id}}}
		})
	})},
	{"client info", "NAME", "reads a lease", operation(func(c *Client, a args, _ *Op) *messages.Operation {
		id := c.lease(a.word(0))
		if id == 0 {
			return nil
		}
		return query(&messages.Query{Query: &messages.Query_LeaseInfo{LeaseInfo: &messages.LeaseInfoRequest{LeaseId: id, Keys: true}}})
	})},
	{"client compact", "back=N", "asks for compaction to N revisions before the current one", operation(func(c *Client, a args, _ *Op) *messages.Operation {
		head := c.world.truth.revision()
		if head <= a.number("back") {
			return nil
		}
		return write(&messages.Write{Op: &messages.Write_Compact{Compact: &messages.Compact{Revision: head - a.number("back")}}})
	})},
	{"client watch", "NAME PREFIX [from=N] [credit=N] [progress=DURATION]", "begins a watch", onClient(func(w *World, c *Client, a args) error {
		c.watch(a.word(0), prefix(a.word(1)), a.number("from"), c.watchOptions(a))
		return c.await(a, func() bool { return !c.watches[len(c.watches)-1].opening })
	})},
	{"client unwatch", "NAME", "ends a watch", onClient(func(w *World, c *Client, a args) error {
		for i, x := range c.watches {
			if x.name == a.word(0) && x.w != nil {
				x.w.Close()
				c.watches = append(c.watches[:i], c.watches[i+1:]...)
				break
			}
		}
		w.quiet()
		return nil
	})},
	{"client stall", "NAME", "takes nothing more from a watch", onClient(func(_ *World, c *Client, a args) error { c.stallWatch(a.word(0), true); return nil })},
	{"client unstall", "NAME", "goes on taking", onClient(func(_ *World, c *Client, a args) error { c.stallWatch(a.word(0), false); return nil })},
	{"client hold", "NAME ttl=DURATION", "opens an SDK session: a lease that is kept alive and warns its holder", onClient(func(_ *World, c *Client, a args) error {
		h := c.hold(a.word(0), a.duration("ttl"))
		return c.await(a, func() bool { h.mu.Lock(); defer h.mu.Unlock(); return h.s != nil || h.err != nil })
	})},
	{"client drop", "NAME", "closes a session that was opened by hold", onClient(func(_ *World, c *Client, a args) error {
		for i, h := range c.holders {
			if h.name == a.word(0) {
				c.drop(h)
				c.holders = append(c.holders[:i], c.holders[i+1:]...)
				break
			}
		}
		return nil
	})},
}

// await runs the world until cond holds, for 5 s at most; not for a line that ends in &.
func (c *Client) await(a args, cond func() bool) error {
	w := c.world
	for end := w.now + awaitMax; !a.async && !cond() && w.now < end && w.Failure() == nil; {
		if !w.Step() {
			w.tick(w.opts.Tick)
		}
	}
	return nil
}

func (c *Client) stallWatch(name string, stalled bool) {
	for _, x := range c.watches {
		if x.name == name {
			if x.mayHave = true; stalled {
				x.stalled = true
			} else {
				x.goOn()
			}
		}
	}
}

// lease returns the id of a lease that any client of the world calls by this name,
// its own first; 0 if there is none.
func (c *Client) lease(name string) uint64 {
	if id := c.leases[name]; id != 0 {
		return id
	}
	for _, o := range c.world.clients {
		if id := o.leases[name]; id != 0 {
			return id
		}
	}
	return 0
}

func onLease(c *Client, a args, f func(uint64) *messages.Write) *messages.Operation {
	if id := c.lease(a.word(0)); id != 0 {
		return write(f(id))
	}
	return nil
}

func key(k string) *messages.Selector {
	return &messages.Selector{By: &messages.Selector_Key{Key: []byte(k)}}
}

func prefix(p string) *messages.Selector {
	return &messages.Selector{By: &messages.Selector_Prefix{Prefix: []byte(p)}}
}

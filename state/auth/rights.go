package auth

import "github.com/concord-kv/concord/messages"

// Rights are what one user may do, all roles together. They never change. A nil
// *Rights is that of whoever is not asked: it may do everything.
type Rights struct {
	// Name and UserID say whose they are.
	Name   string
	UserID uint64

	root, admin        bool
	read, write, lease spans
}

var everything = span{}

// rightsOf adds up what a user's roles grant.
func rightsOf(u *messages.User, role func(name string) *messages.Role) *Rights {
	r := &Rights{Name: u.GetName(), UserID: u.GetId()}
	var read, write, lease []span
	for _, name := range u.GetRoles() {
		if name == messages.RootRole {
			r.root, r.admin = true, true
			r.read, r.write, r.lease = spans{everything}, spans{everything}, spans{everything}
			return r
		}
		for _, g := range role(name).GetGrants() {
			s := spanOf(g.GetSelector())
			if g.GetRead() {
				read = append(read, s)
			}
			if g.GetWrite() {
				write = append(write, s)
			}
			if g.GetLease() {
				lease = append(lease, s)
			}
			r.admin = r.admin || g.GetAdmin()
		}
	}
	r.read, r.write, r.lease = merge(read), merge(write), merge(lease)
	return r
}

// Root reports whether the user has the role root.
func (r *Rights) Root() bool { return r == nil || r.root }

// Admin reports the right admin.
func (r *Rights) Admin() bool { return r == nil || r.admin }

// ReadsKey reports the right read over one key.
func (r *Rights) ReadsKey(key string) bool { return r == nil || r.read.has(key) }

// WritesKey reports the right write over one key.
func (r *Rights) WritesKey(key string) bool { return r == nil || r.write.has(key) }

// LeasesKey reports the right lease over one key.
func (r *Rights) LeasesKey(key string) bool { return r == nil || r.lease.has(key) }

// AnyLease reports the right lease over any key at all.
func (r *Rights) AnyLease() bool { return r == nil || len(r.lease) > 0 }

// Reads reports the right read over every key that the selector names.
func (r *Rights) Reads(s *messages.Selector) bool { return r == nil || r.read.covers(spanOf(s)) }

// Writes reports the right write over every key that the selector names.
func (r *Rights) Writes(s *messages.Selector) bool { return r == nil || r.write.covers(spanOf(s)) }

// Grants returns the rights as grants of ranges, for people.
func (r *Rights) Grants() []*messages.Grant {
	var out []*messages.Grant
	add := func(all spans, set func(*messages.Grant)) {
		for _, s := range all {
			g := &messages.Grant{Selector: selectorOf(s)}
			set(g)
			out = append(out, g)
		}
	}
	add(r.read, func(g *messages.Grant) { g.Read = true })
	add(r.write, func(g *messages.Grant) { g.Write = true })
	add(r.lease, func(g *messages.Grant) { g.Lease = true })
	if r.admin {
		out = append(out, &messages.Grant{Selector: selectorOf(everything), Admin: true})
	}
	return out
}

func selectorOf(s span) *messages.Selector {
	if s == everything {
		return &messages.Selector{By: &messages.Selector_Prefix{}}
	}
	return &messages.Selector{By: &messages.Selector_Range{Range: &messages.KeyRange{Start: []byte(s.lo), End: []byte(s.hi)}}}
}

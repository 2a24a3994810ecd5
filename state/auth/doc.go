// Package auth decides who may do what: users, their roles, and what the roles grant
// over which keys. It is pure data. A Table never changes; a change of it is a new
// Table, so that sessions, watches and views of a node can share it.
//
// What each right allows:
//
//	read   get, list, history, changes, watch, index lookup, a compare or a get in a
//	       transaction, and prev_kv of a write
//	write  put, delete, touch
//	lease  attaching a key to a lease (with write). With lease over any key at all:
//	       grant, named cursors, and keep_alive and revoke of one's own leases. A lease
//	       of somebody else may be kept alive, and attached
//	       to, by whoever has lease over every key it has, and revoked with write too.
//	       The session that numbers a client's writes needs no right at all.
//	admin  everything that is not about keys: configuration, compaction, indexes,
//	       members, backups, users, roles, tokens of others, audit
//
// A request is allowed as a whole or refused as a whole: a list or a watch of a prefix
// needs read over all of it. So nothing that a client may not see has to be taken out
// of an answer, and an answer does not change its meaning with who asks.
package auth

package clustertest

import (
	"fmt"

	"github.com/concord-kv/concord/messages"
)

// securityVerb is one thing that a client can ask for, and who may. Everything is about
// keys of /a/, unless it is about none.
type securityVerb struct {
	name string
	op   func(f *securityFixture) *messages.Operation
	// may are the letters of the users who may: see securityUsers.
	may string
}

// securityFixture has what verbs refer to.
type securityFixture struct {
	lease   uint64 // of root, with the key /a/leased
	session uint64 // of root
	unique  int
}

func (f *securityFixture) name() string { f.unique++; return fmt.Sprintf("n%d", f.unique) }

// securityUsers are what the letters stand for: users of roles, each with a right over
// /a/ alone. Root may do everything, and needs no letter.
var securityUsers = map[rune]string{
	'n': "none", 'r': "reader", 'w': "writer", 'l': "leaser", 'a': "admin",
}

const everybody = "nrwla"

var (
	keyA    = []byte("/a/1")
	prefixA = &messages.Selector{By: &messages.Selector_Prefix{Prefix: []byte("/a/")}}
	oneA    = &messages.Selector{By: &messages.Selector_Key{Key: keyA}}
)

func writeOp(w *messages.Write) *messages.Operation {
	return &messages.Operation{Operation: &messages.Operation_Write{Write: w}}
}

func queryOp(q *messages.Query) *messages.Operation {
	return &messages.Operation{Operation: &messages.Operation_Query{Query: q}}
}

func adminOp(r *messages.AdminRequest) *messages.Operation {
	return &messages.Operation{Operation: &messages.Operation_Admin{Admin: r}}
}

func changeOp(c *messages.ChangeAuth) *messages.Operation {
	return writeOp(&messages.Write{Op: &messages.Write_ChangeAuth{ChangeAuth: c}})
}

// securityVerbs is every operation of a Write, a Query, an AdminRequest, and the rest.
// TestSecurityMatrix checks that none is missing. leaser has write and lease.
var securityVerbs = []securityVerb{
	{"put", func(*securityFixture) *messages.Operation {
		return writeOp(&messages.Write{Op: &messages.Write_Put{Put: &messages.Put{Key: keyA}}})
	}, "wl"},
	{"put prev_kv", func(*securityFixture) *messages.Operation {
		return writeOp(&messages.Write{Op: &messages.Write_Put{Put: &messages.Put{Key: keyA, PrevKv: true}}})
	}, ""},
	{"put lease", func(f *securityFixture) *messages.Operation {
		return writeOp(&messages.Write{Op: &messages.Write_Put{Put: &messages.Put{Key: []byte("/a/leased"), LeaseId: f.lease}}})
	}, "l"},
	{"put secret", func(*securityFixture) *messages.Operation {
		return writeOp(&messages.Write{Op: &messages.Write_Put{Put: &messages.Put{Key: []byte("/secret/1"), PrevKv: true}}})
	}, ""},
	{"put_many", func(*securityFixture) *messages.Operation {
		return writeOp(&messages.Write{Op: &messages.Write_PutMany{PutMany: &messages.PutMany{Puts: []*messages.Put{{Key: keyA}}}}})
	}, "wl"},
	{"delete", func(*securityFixture) *messages.Operation {
		return writeOp(&messages.Write{Op: &messages.Write_Delete{Delete: &messages.Delete{Selector: oneA}}})
	}, "wl"},
	{"delete secret", func(*securityFixture) *messages.Operation {
		all := &messages.Selector{By: &messages.Selector_Prefix{}}
		return writeOp(&messages.Write{Op: &messages.Write_Delete{Delete: &messages.Delete{Selector: all, PrevKv: true}}})
	}, "-"},
	{"touch", func(*securityFixture) *messages.Operation {
		return writeOp(&messages.Write{Op: &messages.Write_Touch{Touch: &messages.Touch{Key: keyA, TtlMs: 60_000}}})
	}, "wl"},
	{"txn compare", func(*securityFixture) *messages.Operation {
		c := &messages.Compare{Key: keyA, Operator: messages.CompareOperator_COMPARE_OPERATOR_EQUAL, Target: &messages.Compare_Version{Version: 1}}
		return writeOp(&messages.Write{Op: &messages.Write_Txn{Txn: &messages.Txn{Compares: []*messages.Compare{c}}}})
	}, "r"},
	{"txn get", func(*securityFixture) *messages.Operation {
		return writeOp(&messages.Write{Op: &messages.Write_Txn{Txn: &messages.Txn{Success: []*messages.TxnOp{
			{Op: &messages.TxnOp_Get{Get: &messages.TxnGet{Selector: oneA}}},
		}}}})
	}, "r"},
	{"txn put in the branch not taken", func(*securityFixture) *messages.Operation {
		return writeOp(&messages.Write{Op: &messages.Write_Txn{Txn: &messages.Txn{Failure: []*messages.TxnOp{
			{Op: &messages.TxnOp_Put{Put: &messages.Put{Key: keyA}}},
		}}}})
	}, "wl"},
	{"txn get secret", func(*securityFixture) *messages.Operation {
		return writeOp(&messages.Write{Op: &messages.Write_Txn{Txn: &messages.Txn{Success: []*messages.TxnOp{
			{Op: &messages.TxnOp_Get{Get: &messages.TxnGet{Selector: &messages.Selector{By: &messages.Selector_Prefix{Prefix: []byte("/")}}, Limit: 10}}},
		}}}})
	}, ""},
	{"grant_lease", func(*securityFixture) *messages.Operation {
		return writeOp(&messages.Write{Op: &messages.Write_GrantLease{GrantLease: &messages.GrantLease{TtlMs: 60_000}}})
	}, "l"},
	{"keep_alive_lease", func(f *securityFixture) *messages.Operation {
		return writeOp(&messages.Write{Op: &messages.Write_KeepAliveLease{KeepAliveLease: &messages.KeepAliveLease{LeaseId: f.lease}}})
	}, "l"},
	{"open_session", func(*securityFixture) *messages.Operation {
		return writeOp(&messages.Write{Op: &messages.Write_OpenSession{OpenSession: &messages.OpenSession{TtlMs: 60_000}}})
	}, everybody},
	{"close_session", func(f *securityFixture) *messages.Operation {
		return writeOp(&messages.Write{Op: &messages.Write_CloseSession{CloseSession: &messages.CloseSession{SessionId: f.session}}})
	}, "-"},
	{"another's session", func(f *securityFixture) *messages.Operation {
		return writeOp(&messages.Write{SessionId: f.session, Sequence: 1, Op: &messages.Write_Put{Put: &messages.Put{Key: keyA}}})
	}, ""},
	{"resolve_idempotency", func(*securityFixture) *messages.Operation {
		return writeOp(&messages.Write{Op: &messages.Write_ResolveIdempotency{ResolveIdempotency: &messages.ResolveIdempotency{Key: "roots"}}})
	}, everybody},
	{"create_index", func(f *securityFixture) *messages.Operation {
		d := &messages.IndexDefinition{Name: f.name(), Prefix: []byte("/a/"), Extractor: &messages.Extractor{By: &messages.Extractor_Identity{Identity: true}}}
		return writeOp(&messages.Write{Op: &messages.Write_CreateIndex{CreateIndex: &messages.CreateIndex{Definition: d}}})
	}, "a"},
	{"drop_index", func(f *securityFixture) *messages.Operation {
		return writeOp(&messages.Write{Op: &messages.Write_DropIndex{DropIndex: &messages.DropIndex{Name: f.name()}}})
	}, "a"},
	{"open_cursor", func(f *securityFixture) *messages.Operation {
		return writeOp(&messages.Write{Op: &messages.Write_OpenCursor{OpenCursor: &messages.OpenCursor{Name: f.name(), LeaseId: f.lease, AfterRevision: 1}}})
	}, "l"},
	{"checkpoint_cursor", func(*securityFixture) *messages.Operation {
		return writeOp(&messages.Write{Op: &messages.Write_CheckpointCursor{CheckpointCursor: &messages.CheckpointCursor{Name: "roots", AfterRevision: 1}}})
	}, ""},
	{"close_cursor", func(*securityFixture) *messages.Operation {
		return writeOp(&messages.Write{Op: &messages.Write_CloseCursor{CloseCursor: &messages.CloseCursor{Name: "roots"}}})
	}, "-"},
	{"compact", func(*securityFixture) *messages.Operation {
		return writeOp(&messages.Write{Op: &messages.Write_Compact{Compact: &messages.Compact{Revision: 1}}})
	}, "a"},
	{"set_config", func(*securityFixture) *messages.Operation {
		return writeOp(&messages.Write{Op: &messages.Write_SetConfig{SetConfig: &messages.SetConfig{
			Config: &messages.ClusterConfig{LeasesMax: 1_000}, Fields: []string{"leases_max"},
		}}})
	}, "a"},
	{"change_auth", func(f *securityFixture) *messages.Operation {
		return changeOp(&messages.ChangeAuth{Change: &messages.ChangeAuth_AddRole{AddRole: &messages.AddRole{Name: f.name()}}})
	}, "a"},

	{"get", func(*securityFixture) *messages.Operation {
		return queryOp(&messages.Query{Query: &messages.Query_Get{Get: &messages.GetRequest{Key: keyA}}})
	}, "r"},
	{"get stale", func(*securityFixture) *messages.Operation {
		return queryOp(&messages.Query{Consistency: messages.Consistency_CONSISTENCY_STALE, Query: &messages.Query_Get{Get: &messages.GetRequest{Key: []byte("/secret/1")}}})
	}, ""},
	{"get_many", func(*securityFixture) *messages.Operation {
		return queryOp(&messages.Query{Query: &messages.Query_GetMany{GetMany: &messages.GetManyRequest{Keys: [][]byte{keyA, []byte("/secret/1")}}}})
	}, ""},
	{"list", func(*securityFixture) *messages.Operation {
		return queryOp(&messages.Query{Query: &messages.Query_List{List: &messages.ListRequest{Selector: prefixA}}})
	}, "r"},
	{"count all", func(*securityFixture) *messages.Operation {
		return queryOp(&messages.Query{Query: &messages.Query_List{List: &messages.ListRequest{Selector: &messages.Selector{By: &messages.Selector_Prefix{}}, CountOnly: true}}})
	}, ""},
	{"history", func(*securityFixture) *messages.Operation {
		return queryOp(&messages.Query{Query: &messages.Query_History{History: &messages.HistoryRequest{Key: keyA}}})
	}, "r"},
	{"history secret", func(*securityFixture) *messages.Operation {
		return queryOp(&messages.Query{Query: &messages.Query_History{History: &messages.HistoryRequest{Key: []byte("/secret/1")}}})
	}, ""},
	{"changes", func(*securityFixture) *messages.Operation {
		return queryOp(&messages.Query{Query: &messages.Query_Changes{Changes: &messages.ChangesRequest{Selector: prefixA, PrevKv: true, After: &messages.Position{Revision: 5}}}})
	}, "r"},
	{"changes all", func(*securityFixture) *messages.Operation {
		return queryOp(&messages.Query{Query: &messages.Query_Changes{Changes: &messages.ChangesRequest{Selector: &messages.Selector{By: &messages.Selector_Prefix{}}, PrevKv: true}}})
	}, ""},
	{"revision", func(*securityFixture) *messages.Operation {
		return queryOp(&messages.Query{Query: &messages.Query_Revision{Revision: &messages.RevisionRequest{}}})
	}, everybody},
	{"lease_info", func(f *securityFixture) *messages.Operation {
		return queryOp(&messages.Query{Query: &messages.Query_LeaseInfo{LeaseInfo: &messages.LeaseInfoRequest{LeaseId: f.lease, Keys: true}}})
	}, "a"},
	{"lease_list", func(*securityFixture) *messages.Operation {
		return queryOp(&messages.Query{Query: &messages.Query_LeaseList{LeaseList: &messages.LeaseListRequest{IncludeAnonymous: true}}})
	}, everybody},
	{"index_lookup", func(*securityFixture) *messages.Operation {
		return queryOp(&messages.Query{Query: &messages.Query_IndexLookup{IndexLookup: &messages.IndexLookupRequest{Name: "secrets"}}})
	}, ""},
	{"index_list", func(*securityFixture) *messages.Operation {
		return queryOp(&messages.Query{Query: &messages.Query_IndexList{IndexList: &messages.IndexListRequest{}}})
	}, everybody},
	{"cursor_list", func(*securityFixture) *messages.Operation {
		return queryOp(&messages.Query{Query: &messages.Query_CursorList{CursorList: &messages.CursorListRequest{}}})
	}, everybody},
	{"config", func(*securityFixture) *messages.Operation {
		return queryOp(&messages.Query{Query: &messages.Query_Config{Config: &messages.ConfigRequest{}}})
	}, everybody},
	{"status", func(*securityFixture) *messages.Operation {
		return queryOp(&messages.Query{Query: &messages.Query_Status{Status: &messages.StatusRequest{}}})
	}, everybody},
	{"auth_status", func(*securityFixture) *messages.Operation {
		return queryOp(&messages.Query{Query: &messages.Query_AuthStatus{AuthStatus: &messages.AuthStatusRequest{}}})
	}, everybody},
	{"user_list", func(*securityFixture) *messages.Operation {
		return queryOp(&messages.Query{Query: &messages.Query_UserList{UserList: &messages.UserListRequest{Name: "root"}}})
	}, "a"},
	{"role_list", func(*securityFixture) *messages.Operation {
		return queryOp(&messages.Query{Query: &messages.Query_RoleList{RoleList: &messages.RoleListRequest{Name: "root"}}})
	}, "a"},
	{"audit", func(*securityFixture) *messages.Operation {
		return queryOp(&messages.Query{Query: &messages.Query_Audit{Audit: &messages.AuditRequest{}}})
	}, "a"},

	{"watch", func(f *securityFixture) *messages.Operation {
		f.unique++
		return &messages.Operation{Operation: &messages.Operation_Watch{Watch: &messages.WatchRequest{WatchId: uint64(f.unique), Selector: prefixA}}}
	}, "r"},
	{"watch all", func(f *securityFixture) *messages.Operation {
		f.unique++
		return &messages.Operation{Operation: &messages.Operation_Watch{Watch: &messages.WatchRequest{
			WatchId: uint64(f.unique), Selector: &messages.Selector{By: &messages.Selector_Prefix{}}, FromRevision: 5, PrevKv: true,
		}}}
	}, ""},
	{"token", func(*securityFixture) *messages.Operation {
		return &messages.Operation{Operation: &messages.Operation_Token{Token: &messages.TokenRequest{User: "root"}}}
	}, "a"},

	{"members", func(*securityFixture) *messages.Operation {
		return adminOp(&messages.AdminRequest{Request: &messages.AdminRequest_Members{Members: &messages.MembersRequest{}}})
	}, everybody},
	{"add_member", func(*securityFixture) *messages.Operation {
		return adminOp(&messages.AdminRequest{Request: &messages.AdminRequest_AddMember{AddMember: &messages.AddMemberRequest{}}})
	}, "a"},
	{"promote_member", func(*securityFixture) *messages.Operation {
		return adminOp(&messages.AdminRequest{Request: &messages.AdminRequest_PromoteMember{PromoteMember: &messages.PromoteMemberRequest{ReplicaId: 9}}})
	}, "a"},
	{"remove_member", func(*securityFixture) *messages.Operation {
		return adminOp(&messages.AdminRequest{Request: &messages.AdminRequest_RemoveMember{RemoveMember: &messages.RemoveMemberRequest{ReplicaId: 9}}})
	}, "a"},
	{"move_leader", func(*securityFixture) *messages.Operation {
		return adminOp(&messages.AdminRequest{Request: &messages.AdminRequest_MoveLeader{MoveLeader: &messages.MoveLeaderRequest{ReplicaId: 9}}})
	}, "a"},
	{"save_snapshot", func(*securityFixture) *messages.Operation {
		return adminOp(&messages.AdminRequest{Request: &messages.AdminRequest_SaveSnapshot{SaveSnapshot: &messages.SaveSnapshotRequest{}}})
	}, "a"},
	{"backup", func(*securityFixture) *messages.Operation {
		return adminOp(&messages.AdminRequest{Request: &messages.AdminRequest_Backup{Backup: &messages.BackupRequest{BackupId: 1, Cancel: true}}})
	}, "a"},
	{"revoke_lease", func(f *securityFixture) *messages.Operation {
		return writeOp(&messages.Write{Op: &messages.Write_RevokeLease{RevokeLease: &messages.RevokeLease{LeaseId: f.lease}}})
	}, "l-"},
}

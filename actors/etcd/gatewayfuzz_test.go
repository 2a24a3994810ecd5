package etcd_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/concord-kv/concord/actors/node"
)

// unary are the requests of the JSON gateway that are answered once, and at once.
var unary = []string{
	"/v3/kv/range", "/v3/kv/put", "/v3/kv/deleterange", "/v3/kv/txn", "/v3/kv/compaction",
	"/v3/lease/grant", "/v3/lease/revoke", "/v3/lease/timetolive", "/v3/lease/leases", "/v3/kv/lease/revoke",
	"/v3/cluster/member/list", "/v3/cluster/member/update", "/v3/cluster/member/promote",
	"/v3/maintenance/status", "/v3/maintenance/alarm", "/v3/maintenance/hash", "/v3/maintenance/hashkv", "/v3/maintenance/transfer-leadership",
	"/v3/auth/status", "/v3/auth/authenticate", "/v3/auth/role/get", "/v3/auth/role/grant", "/v3/auth/role/add", "/v3/auth/user/get",
	"/v3/auth/user/list", "/v3/lock/unlock", "/v3/election/leader", "/v3/election/proclaim", "/v3/nothing", "/health", "/version",
}

// FuzzGateway: whatever is posted is answered with JSON and a status that is no fault of
// the server, and the endpoint goes on.
func FuzzGateway(f *testing.F) {
	for i, body := range []string{
		`{"key":"Zm9v"}`, `{"key":"Zm9v","value":"YmFy","lease":"7"}`, `{"key":"AA==","range_end":"AA=="}`,
		`{"compare":[{"key":"Zm9v","result":"EQUAL","target":"VALUE","value":"YmFy"}],"success":[{"request_put":{"key":"Zm9v","value":"YQ=="}}],"failure":[{}]}`,
		`{"compare":[{"target":9,"result":-1}],"success":[{"request_txn":{"success":[{"request_txn":{}}]}}]}`,
		`{"revision":"99999999999999999999"}`, `{"TTL":1e30}`, `{"ID":"-9223372036854775808"}`, `[]`, `{`, ``, `null`, `{"key":5}`, "\xff\x00",
		`{"sort_order":"NONE","sort_target":77,"limit":-1,"key":"YQ=="}`, `{"perm":{"permType":"READ","key":"","range_end":"AA=="},"name":"r"}`,
	} {
		f.Add(uint8(i), body)
		f.Add(uint8(3), body)
	}
	f.Add(uint8(slices.Index(unary, "/v3/election/leader")), "{}")
	n, err := node.Start(node.Config{Dir: f.TempDir(), Etcd: &node.Etcd{Address: "127.0.0.1:0"}})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		if err := n.Close(); err != nil {
			f.Error(err)
		}
	})
	f.Fuzz(func(t *testing.T, which uint8, body string) {
		path := unary[int(which)%len(unary)]
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+n.EtcdAddr()+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatalf("POST %s %q: %v", path, body, err)
		}
		defer a.Body.Close()
		b, err := io.ReadAll(a.Body)
		if err != nil || !json.Valid(b) {
			t.Fatalf("POST %s %q: %s %q %v", path, body, a.Status, b, err)
		}
		// That nobody leads is, as with etcd, an error without a code.
		if a.StatusCode == http.StatusInternalServerError && !strings.Contains(string(b), "election: no leader") {
			t.Fatalf("POST %s %q: %s %s", path, body, a.Status, b)
		}
	})
}

package etcd_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"

	"github.com/concord-kv/concord/state"
)

// TestHTTP: JSON, health and locks come over HTTP on the same port.
func TestHTTP(t *testing.T) {
	e := start(t)
	call := func(path, body string) map[string]any {
		t.Helper()
		var (
			r   *http.Response
			err error
		)
		if url := "http://" + e.node.EtcdAddr() + path; body == "" {
			r, err = http.Get(url)
		} else {
			r, err = http.Post(url, "application/json", strings.NewReader(body))
		}
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		answer := map[string]any{}
		if err := json.NewDecoder(r.Body).Decode(&answer); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		answer["status"] = r.StatusCode
		return answer
	}
	if a := call("/v3/kv/put", `{"key":"Zm9v","value":"YmFy"}`); a["header"].(map[string]any)["revision"] != "2" {
		t.Fatalf("%v", a)
	}
	if a := call("/v3/kv/range", `{"key":"Zm9v"}`); a["count"] != "1" {
		t.Fatalf("%v", a)
	}
	if a := call("/v3/kv/range", `{}`); a["status"] != http.StatusBadRequest || a["message"] != "etcdserver: key is not provided" {
		t.Fatalf("%v", a)
	}
	if a := call("/health", ""); a["health"] != "true" {
		t.Fatalf("%v", a)
	}
	if a := call("/version", ""); a["etcdserver"] == "" {
		t.Fatalf("%v", a)
	}
	a := call("/v3/lock/lock", `{"name":"bG9jaw=="}`)
	key, _ := a["key"].(string)
	if key == "" {
		t.Fatalf("%v", a)
	}
	if a := call("/v3/lock/unlock", `{"key":"`+key+`"}`); a["status"] != http.StatusOK {
		t.Fatalf("%v", a)
	}
	a = call("/v3/election/campaign", `{"name":"Ym9zcw==","value":"bWU="}`)
	if a["leader"] == nil {
		t.Fatalf("%v", a)
	}
	if a := call("/v3/election/leader", `{"name":"Ym9zcw=="}`); a["kv"].(map[string]any)["value"] != "bWU=" {
		t.Fatalf("%v", a)
	}
	if a := call("/v3/election/leader", `{"name":"bm9ib2R5"}`); a["message"] != "election: no leader" {
		t.Fatalf("%v", a)
	}
	h, err := healthpb.NewHealthClient(e.conn).Check(metadata.AppendToOutgoingContext(e.ctx, "hasleader", "true"), &healthpb.HealthCheckRequest{})
	if err != nil || h.Status != healthpb.HealthCheckResponse_SERVING {
		t.Fatalf("%v %v", h, err)
	}
}

// TestSnapshot: what a client saves has the form that etcd's client wants, and what is in
// it loads.
func TestSnapshot(t *testing.T) {
	e := start(t)
	for i := range 100 {
		e.put(fmt.Sprint("k", i), "v")
	}
	stream, err := pb.NewMaintenanceClient(e.conn).Snapshot(e.ctx, &pb.SnapshotRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var all []byte
	for {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r.Blob...)
	}
	if len(all)%512 != sha256.Size {
		t.Fatalf("%d bytes", len(all))
	}
	body := all[:len(all)-sha256.Size]
	if sum := sha256.Sum256(body); !bytes.Equal(sum[:], all[len(body):]) {
		t.Fatal("the checksum is not that of the rest")
	}
	m, err := state.Load(bytes.NewReader(body[:binary.BigEndian.Uint64(body[len(body)-8:])]))
	if err != nil || m.Revision() != 100 {
		t.Fatalf("%v", err)
	}
}

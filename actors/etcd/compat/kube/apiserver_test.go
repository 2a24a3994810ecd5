package kube

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"
)

var client = &http.Client{Transport: &http.Transport{
	TLSClientConfig:     &tls.Config{InsecureSkipVerify: true}, // its certificate is its own, made when it starts
	MaxIdleConnsPerHost: 32, ForceAttemptHTTP2: true,
}}

func request(ctx context.Context, method, url string, body any) (*http.Response, error) {
	var r io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		r = bytes.NewReader(b)
	}
	q, err := http.NewRequestWithContext(ctx, method, url, r)
	if err != nil {
		return nil, err
	}
	q.Header.Set("Authorization", "Bearer "+token)
	q.Header.Set("Content-Type", "application/json")
	return client.Do(q)
}

// try makes a request that must succeed, and reads its answer.
func try(ctx context.Context, method, url string, body, answer any) error {
	r, err := request(ctx, method, url, body)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	switch {
	case err != nil:
		return err
	case r.StatusCode/100 != 2:
		return fmt.Errorf("%s %s: %s %s", method, url, r.Status, b)
	case answer == nil:
		return nil
	}
	return json.Unmarshal(b, answer)
}

func call(t *testing.T, ctx context.Context, method, url string, body, answer any) {
	t.Helper()
	if err := try(ctx, method, url, body, answer); err != nil {
		t.Fatal(err)
	}
}

type meta struct {
	Name            string `json:"name,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	Continue        string `json:"continue,omitempty"`
	Remaining       *int   `json:"remainingItemCount,omitempty"`
}

type object struct {
	Kind     string            `json:"kind,omitempty"`
	API      string            `json:"apiVersion,omitempty"`
	Metadata meta              `json:"metadata"`
	Data     map[string]string `json:"data,omitempty"`
}

type list struct {
	Metadata meta     `json:"metadata"`
	Items    []object `json:"items"`
}

type event struct {
	Type   string `json:"type"`
	Object object `json:"object"`
}

// watch counts the events of each type, until there are as many as wanted of one.
func watch(ctx context.Context, url, of string, wanted int) (map[string]int, error) {
	seen, names := map[string]int{}, map[string]bool{}
	r, err := request(ctx, http.MethodGet, url, nil)
	if err != nil {
		return seen, err
	}
	defer r.Body.Close()
	for d := json.NewDecoder(r.Body); seen[of] < wanted; {
		var e event
		if err := d.Decode(&e); err != nil {
			return seen, err
		}
		if e.Type == "ERROR" || names[e.Type+e.Object.Metadata.Name] && e.Type != "BOOKMARK" {
			return seen, fmt.Errorf("%s of %s, once more or at all", e.Type, e.Object.Metadata.Name)
		}
		names[e.Type+e.Object.Metadata.Name] = true
		seen[e.Type]++
	}
	return seen, nil
}

// TestAPIServer creates, lists by pages, watches, updates and deletes 1,000 objects through
// a kube-apiserver that stores them in a node.
func TestAPIServer(t *testing.T) {
	concord, apiserver := os.Getenv("CONCORD_BIN"), os.Getenv("KUBE_APISERVER_BIN")
	if concord == "" || apiserver == "" {
		t.Skip("CONCORD_BIN and KUBE_APISERVER_BIN name no programs: see make kube")
	}
	const n = 1_000
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	began := time.Now()
	api := startAPI(t, apiserver, startNode(t, concord))
	t.Logf("ready after %v", time.Since(began).Round(time.Millisecond))
	call(t, ctx, http.MethodPost, api+"/api/v1/namespaces", object{Kind: "Namespace", API: "v1", Metadata: meta{Name: "many"}}, nil)
	maps := api + "/api/v1/namespaces/many/configmaps"
	var before list
	call(t, ctx, http.MethodGet, maps, nil, &before)
	from := maps + "?watch=true&allowWatchBookmarks=true&resourceVersion=" + before.Metadata.ResourceVersion

	watched := make(chan error, 1)
	began = time.Now()
	go func() {
		_, err := watch(ctx, from, "ADDED", n)
		watched <- err
	}()
	each(t, n, func(i int) error {
		return try(ctx, http.MethodPost, maps, object{Kind: "ConfigMap", API: "v1", Metadata: meta{Name: name(i)}, Data: map[string]string{"n": fmt.Sprint(i)}}, nil)
	})
	t.Logf("create: %d objects in %v, 16 at once", n, time.Since(began).Round(time.Millisecond))
	if err := <-watched; err != nil {
		t.Fatalf("the watch: %v", err)
	}
	t.Logf("watch: %d events, the last %v after the first create", n, time.Since(began).Round(time.Millisecond))

	began = time.Now()
	var all list
	call(t, ctx, http.MethodGet, maps+"?resourceVersion=", nil, &all)
	if len(all.Items) != n {
		t.Fatalf("a list has %d objects", len(all.Items))
	}
	t.Logf("list: %d objects in %v", n, time.Since(began).Round(time.Millisecond))
	began = time.Now()
	pages(t, ctx, maps, n)
	t.Logf("list: %d objects by pages of 100 in %v", n, time.Since(began).Round(time.Millisecond))

	// An update of what has changed meanwhile is refused.
	one := all.Items[0]
	one.Kind, one.API, one.Data = "ConfigMap", "v1", map[string]string{"n": "new"}
	call(t, ctx, http.MethodPut, maps+"/"+one.Metadata.Name, one, nil)
	r, err := request(ctx, http.MethodPut, maps+"/"+one.Metadata.Name, one)
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Body.Close() // its status says all
	if r.StatusCode != http.StatusConflict {
		t.Fatalf("an update of an old version: %s", r.Status)
	}
	began = time.Now()
	go func() {
		_, err := watch(ctx, from, "DELETED", n)
		watched <- err
	}()
	call(t, ctx, http.MethodDelete, maps, nil, nil)
	if err := <-watched; err != nil {
		t.Fatalf("the watch from the beginning: %v", err)
	}
	t.Logf("delete: %d objects, watched from the beginning, in %v", n, time.Since(began).Round(time.Millisecond))
}

func name(i int) string { return fmt.Sprintf("object-%04d", i) }

// each does something for every number, sixteen at once.
func each(t *testing.T, n int, do func(i int) error) {
	t.Helper()
	var wg sync.WaitGroup
	next := make(chan int)
	for range 16 {
		wg.Go(func() {
			for i := range next {
				if err := do(i); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}

// pages lists by pages, all of one revision.
func pages(t *testing.T, ctx context.Context, maps string, n int) {
	t.Helper()
	seen, revision, more := 0, "", ""
	for {
		var l list
		call(t, ctx, http.MethodGet, maps+"?limit=100&continue="+more, nil, &l)
		if revision == "" {
			revision = l.Metadata.ResourceVersion
		}
		if l.Metadata.ResourceVersion != revision {
			t.Fatalf("a page is of %s, the first of %s", l.Metadata.ResourceVersion, revision)
		}
		seen += len(l.Items)
		if l.Metadata.Continue == "" {
			break
		}
		if r := l.Metadata.Remaining; r == nil || *r != n-seen {
			t.Fatalf("after %d objects %v remain", seen, r)
		}
		more = l.Metadata.Continue
	}
	if seen != n {
		t.Fatalf("%d objects of %d", seen, n)
	}
}

"""python3-etcd3 against a node's etcd endpoint: /usr/bin/python3 smoke.py [HOST:PORT]

Debian has it as python3-etcd3 (0.12).
"""
import os
import queue
import sys
import tempfile
import threading

# Its generated messages are older than the protobuf that may be installed.
os.environ.setdefault("PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION", "python")
import etcd3  # noqa: E402


def main():
    host, _, port = (sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:2379").rpartition(":")
    client = etcd3.client(host=host, port=int(port), timeout=60)
    client.delete_prefix("py/")

    client.put("py/a", "1")
    assert client.get("py/a")[0] == b"1"
    client.put("py/b", "2")
    assert [v for v, _ in client.get_prefix("py/", sort_order="descend")] == [b"2", b"1"]
    assert client.get("py/none")[0] is None

    t = client.transactions
    won, answers = client.transaction(
        compare=[t.value("py/a") == "1", t.version("py/a") > 0],
        success=[t.put("py/a", "3"), t.get("py/a")],
        failure=[t.delete("py/a")],
    )
    assert won and answers[1][0][0] == b"3", answers
    assert client.replace("py/a", "3", "4") and not client.replace("py/a", "3", "5")
    assert client.put_if_not_exists("py/c", "1") and not client.put_if_not_exists("py/c", "1")

    seen = queue.Queue()
    watch = client.add_watch_prefix_callback("py/w", lambda r: [seen.put(e) for e in r.events])
    client.put("py/w1", "watched")
    client.delete("py/w1")
    event = seen.get(timeout=60)
    assert isinstance(event, etcd3.events.PutEvent) and event.value == b"watched", event
    assert isinstance(seen.get(timeout=60), etcd3.events.DeleteEvent)
    client.cancel_watch(watch)

    lease = client.lease(60)
    client.put("py/leased", "x", lease=lease)
    assert lease.granted_ttl == 60 and lease.keys == [b"py/leased"], lease.keys
    assert lease.refresh()[0].TTL == 60
    lease.revoke()
    assert client.get("py/leased")[0] is None

    order = []

    def acquire(mine, lock):
        # Its own way to wait does not go with the tenacity that Debian has beside it.
        while True:
            try:
                if lock.acquire(timeout=0):
                    return
            except TypeError:
                pass
            try:
                mine.watch_once(lock.key, timeout=1)
            except etcd3.exceptions.WatchTimedOut:
                pass

    def hold(n):
        # A client for each: locks of one client are not for several threads.
        mine = etcd3.client(host=host, port=int(port), timeout=60)
        lock = mine.lock("py", ttl=60)
        acquire(mine, lock)
        order.append(n)
        order.append(n)
        assert lock.release()

    threads = [threading.Thread(target=hold, args=(n,)) for n in range(4)]
    for x in threads:
        x.start()
    for x in threads:
        x.join()
    assert len(order) == 8 and all(order[i] == order[i + 1] for i in range(0, 8, 2)), order

    assert [m.name for m in client.members][0].startswith("replica-")
    assert client.status().version.startswith("3.")
    client.compact(client.get("py/a")[1].mod_revision)
    with tempfile.TemporaryFile() as f:
        client.snapshot(f)
        assert f.tell() % 512 == 32
    client.close()
    print("put, get, txn, watch, lease, lock, members, status, compact, snapshot: ok")


if __name__ == "__main__":
    main()

// etcd3 against a node's etcd endpoint: node smoke.js [HOST:PORT]
'use strict';
const assert = require('node:assert');
const { Etcd3 } = require('etcd3');

async function main() {
  const client = new Etcd3({ hosts: process.argv[2] || '127.0.0.1:2379' });
  await client.delete().all();

  await client.put('a').value('1');
  assert.strictEqual(await client.get('a').string(), '1');
  assert.deepStrictEqual(await client.getAll().prefix('').strings(), { a: '1' });

  const won = await client.if('a', 'Value', '==', '1').then(client.put('a').value('2')).else(client.get('a')).commit();
  assert.strictEqual(won.succeeded, true);
  assert.strictEqual(await client.get('a').string(), '2');

  const watcher = await client.watch().prefix('w').create();
  const seen = new Promise((resolve) => watcher.on('put', (kv) => resolve(kv.value.toString())));
  await client.put('w1').value('watched');
  assert.strictEqual(await seen, 'watched');
  await watcher.cancel();

  const lease = client.lease(10);
  const id = await lease.grant();
  await lease.put('leased').value('x');
  assert.strictEqual(await client.get('leased').string(), 'x');
  await lease.revoke();
  assert.strictEqual(await client.get('leased').string(), null, `lease ${id}`);

  const order = [];
  await Promise.all([1, 2, 3].map((n) => client.lock('lock').do(async () => {
    order.push(n);
    await new Promise((resolve) => setTimeout(resolve, 20));
    order.push(n);
  }).catch((e) => { if (e.constructor.name !== 'EtcdLockFailedError') throw e; })));
  for (let i = 0; i < order.length; i += 2) assert.strictEqual(order[i], order[i + 1]);

  const election = client.election('boss', 5);
  const campaign = election.campaign('me');
  await new Promise((resolve, reject) => { campaign.on('elected', resolve); campaign.on('error', reject); });
  assert.strictEqual(await election.leader(), 'me');
  await campaign.resign();

  client.close();
  console.log('put, get, txn, watch, lease, lock, election: ok');
}

main().catch((e) => { console.error(e); process.exit(1); });

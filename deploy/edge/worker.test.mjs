// Runs the worker against a daemon with deploy/forward-auth/limits.yaml: three logins per hour and address.
//   SLIDEGATE=http://127.0.0.1:8080 node deploy/edge/worker.test.mjs
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { DenialCache, limiter } from './worker.mjs';

const origin = createServer((_, response) => response.end('served'));
await new Promise((resolve) => origin.listen(0, '127.0.0.1', resolve));
const site = `http://127.0.0.1:${origin.address().port}`;

let time = 0;
let calls = 0;
const call = (target, options) => {
  const isDaemon = typeof target === 'string';
  calls += isDaemon ? 1 : 0;
  return fetch(target, options);
};
const settings = { SLIDEGATE: process.env.SLIDEGATE, DEADLINE_MS: 30_000 };
const handle = limiter(settings, call, () => time);
const login = (address, path = '/login') =>
  handle(new Request(site + path, { method: 'POST', headers: { 'cf-connecting-ip': address } }));

// The limit, with the fields and the problem of the daemon.
for (let number = 0; number < 3; number += 1) {
  const response = await login('203.0.113.1');
  assert.equal(`${response.status} ${await response.text()}`, '200 served');
}
const first = await login('203.0.113.1');
assert.equal(first.status, 429);
assert.equal((await first.json())['violated-policies'][0], 'login');
const wait = Number(first.headers.get('retry-after'));
assert.ok(wait > 3500 && wait <= 3600, `${wait}`);
assert.equal(calls, 4);

// A flood is answered at the edge, with the time that is left.
time = 100_000;
for (let number = 0; number < 50; number += 1) {
  const response = await login('203.0.113.1');
  assert.equal(response.status, 429);
  assert.equal(response.headers.get('retry-after'), String(wait - 100));
}
assert.equal(calls, 4);

// Other clients and other paths are not affected.
assert.equal((await login('203.0.113.2')).status, 200);
assert.equal((await login('203.0.113.1', '/other')).status, 200);

// When the denial has expired, the daemon decides again.
time = 1000 * wait;
const before = calls;
assert.equal((await login('203.0.113.1')).status, 429);
assert.equal(calls, before + 1);

// Without a daemon.
for (const [FAIL_OPEN, status] of [['true', 200], ['false', 503]]) {
  const offline = limiter({ ...settings, SLIDEGATE: 'http://127.0.0.1:1', FAIL_OPEN }, call, () => time);
  const request = new Request(site, { headers: { 'cf-connecting-ip': '203.0.113.3' } });
  assert.equal((await offline(request)).status, status);
}

// The cache is bounded, and drops the oldest denial.
const cache = new DenialCache(() => time, 2);
for (const key of ['a', 'b', 'c']) cache.set(key, 10, [], '');
assert.deepEqual(['a', 'b', 'c'].map((key) => cache.get(key) !== undefined), [false, true, true]);

origin.close();
console.log('ok');

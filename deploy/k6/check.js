// Load on a running daemon at 90 % of its limits, for k6: see docs/deploy.md.
//
//   slidegate serve &
//   k6 run deploy/k6/check.js
//
// Set with -e: ADDRESS, POLICY, and LIMIT and WINDOW (in seconds) of that policy; SECONDS, the duration; RATE, requests per
// second of all keys together; P99_MS, the threshold of latency (0 for none); VUS, a number of clients instead of a rate.
//
// Every decision is checked. Keys that send 90 % of their limit, evenly, must never be denied. One more key sends ten
// times its limit and must never get more than its limit within a window. If k6 itself stalls for more than a tenth of a
// window, it sends requests late and close together, and may report denials that are right.

import exec from 'k6/execution';
import http from 'k6/http';
import { check, sleep } from 'k6';
import { Counter, Rate } from 'k6/metrics';

const address = __ENV.ADDRESS || 'http://127.0.0.1:8080';
const policy = __ENV.POLICY || 'example';
const limit = Number(__ENV.LIMIT || 10);
const windowMs = 1000 * Number(__ENV.WINDOW || 10);
const rate = Number(__ENV.RATE || 1000);
const seconds = Number(__ENV.SECONDS || 30);
const p99 = Number(__ENV.P99_MS || 2);
const vus = Number(__ENV.VUS || 0);

// Milliseconds between two requests of a key at 90 % of its limit, and as many keys as make up the rate.
const everyMs = windowMs / (0.9 * limit);
const keys = Math.ceil((rate * everyMs) / 1000);
// Other runs in the same window use other keys.
const run = __ENV.RUN || `${Date.now()}`;

const denied = new Rate('denied');
const wrong = new Counter('wrong_decisions');

// An open model: a slow reply does not delay later requests. With VUS, each client waits for its replies.
const executor = vus === 0
  ? { executor: 'constant-arrival-rate', rate, timeUnit: '1s', preAllocatedVUs: 50, maxVUs: 500 }
  : { executor: 'constant-vus', vus };

const thresholds = {
  checks: ['rate==1'],
  http_req_failed: ['rate==0'],
  wrong_decisions: ['count==0'],
};
if (p99 > 0) thresholds['http_req_duration{scenario:steady}'] = [`p(99)<${p99}`];

export const options = {
  scenarios: {
    steady: { ...executor, duration: `${seconds}s`, exec: 'steady' },
    flood: { executor: 'constant-vus', vus: 1, duration: `${seconds}s`, exec: 'flood' },
  },
  thresholds,
  summaryTrendStats: ['min', 'med', 'p(90)', 'p(99)', 'max'],
};

const params = { headers: { 'Content-Type': 'application/json' } };

/** Returns whether a request is allowed, or undefined without a decision. */
function decide(key) {
  const response = http.post(`${address}/v1/check`, JSON.stringify({ policy, key }), params);
  const reply = response.status === 200 ? response.json() : {};
  check(reply, { 'it is a decision': (reply) => typeof reply.allowed === 'boolean' });
  denied.add(reply.allowed === false);
  return reply.allowed;
}

function report(message) {
  wrong.add(1);
  console.error(message);
}

export function steady() {
  if (vus === 0) {
    const key = `${run}:${exec.scenario.iterationInTest % keys}`;
    if (decide(key) === false) report(`${key} was denied at 90 % of its limit`);
    return;
  }
  // Clients do not start at the same time.
  if (exec.vu.iterationInScenario === 0) sleep((Math.random() * everyMs) / 1000);
  const sent = Date.now();
  const key = `${run}:${exec.vu.idInTest}`;
  if (decide(key) === false) report(`${key} was denied at 90 % of its limit`);
  sleep(Math.max(0, everyMs - (Date.now() - sent)) / 1000);
}

// When the last allowed requests of the flood were sent. Its client is one VU, so this is not shared.
const allowed = [];

export function flood() {
  const sent = Date.now();
  if (decide(`${run}:flood`) === true) {
    allowed.push(sent);
    // All of these were decided between the first sending and now. Clocks are read in whole milliseconds.
    const took = Date.now() - allowed[0] + 1;
    if (allowed.length > limit && took < windowMs) report(`${allowed.length} were allowed within ${took} ms`);
    if (allowed.length > limit) allowed.shift();
  }
  sleep(windowMs / (10 * limit) / 1000);
}

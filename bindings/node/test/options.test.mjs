// Options of middleware are validated at the start.

import assert from 'node:assert/strict'
import { test } from 'node:test'

import fastify from 'fastify'

import { Limiter } from 'slidegate'
import { rateLimit as express } from 'slidegate/express'
import { rateLimit as fastifyLimit, slidegate } from 'slidegate/fastify'
import { rateLimit as hono } from 'slidegate/hono'
import { rateLimit as http } from 'slidegate/http'

const limiter = new Limiter({ name: 'api', quotas: '1/minute', tiers: { gold: '2/minute' } })

const INVALID = [
  [{ limiter, trustedProxies: ['10.0.0.0/8'] }, /no option `trustedProxies`: set it in `address`/],
  [{ limiter, keys: 'ip' }, /no option `keys`: use limiter, key, /],
  [{ limiter, count: 'success' }, /`count` is 'success': use 'all', 'failed', 'successful' or a function/],
  [{ limiter, missingKey: 'reject' }, /`missingKey` is 'reject': use 'ip', 'skip' or 'deny'/],
  [{ limiter, key: { header: 'x-api-key' }, duplicates: 'join' }, /`duplicates` is 'join': use 'deny', 'first' or 'last'/],
  [{ limiter, duplicates: 'first' }, /`duplicates` has no effect without a `header` in `key`/],
  [{ limiter, key: { header: 'x api key' } }, /"x api key" is no name of a header field/],
  [{ limiter, key: 'header:x-api-key' }, /`key` is 'header:x-api-key': use 'ip', { header: 'name' }/],
  [{ limiter, key: [] }, /`key` is \[\]: /],
  [{ limiter, key: ['ip', null] }, /`key` is \[ 'ip', null \]: /],
  [{ limiter, key: { header: 3 } }, /`key` is { header: 3 }: /],
  [{ limiter, cost: 0 }, /`cost` is 0: use an integer/],
  [{ limiter, cost: '2' }, /`cost` is '2': /],
  [{ limiter, tier: 'silver' }, /policy "api" has no tier "silver"/],
  [{ limiter, tier: 1 }, /`tier` is 1: /],
  [{ limiter, skip: true }, /`skip` is true: use a function/],
  [{ limiter, onDenied: 'no' }, /`onDenied` is 'no': use a function/],
  [{ limiter, onError: 1n }, /`onError` is 1n: use a function/],
  [{ limiter: '1/minute' }, /`limiter` is '1\/minute': use a Limiter/],
  [{ limiter, limits: [] }, /one of `limiter` and `limits`/],
  [{}, /one of `limiter` and `limits`/],
  [undefined, /a middleware is undefined: use an object/],
  [{ limits: [] }, /`limits` is \[\]: use a list of 1 to 64/],
  [{ limits: Array(65).fill({ limiter }) }, /use a list of 1 to 64/],
  [{ limits: [{ limiter }], key: 'ip' }, /`key` has no effect next to `limits`/],
  [{ limits: [{ limiter, count: 'all' }] }, /one of `limits` has no option `count`/],
  [{ limits: [{ limiter, key: 'x' }] }, /`key` is 'x'/],
  [{ limiter, http: { bodies: 'json' } }, /bodies/],
  [{ limiter, address: { trusted: [] } }, /trusted/],
]

for (const [name, make] of Object.entries({ express, fastify: fastifyLimit, hono, http })) {
  test(`${name}: unknown names and values are rejected at the start`, () => {
    for (const [options, message] of INVALID) {
      assert.throws(() => make(options), { name: 'SlidegateError', code: 'setting', message })
    }
  })

  test(`${name}: every documented value is accepted`, () => {
    make({ limiter, key: undefined, count: undefined, limits: undefined })
    make({ limiter, key: ['ip', { header: 'x-user' }, () => 'a'], missingKey: 'deny', duplicates: 'last', cost: 2, tier: 'gold', count: 'failed' })
    make({ limits: [{ limiter: { quotas: '1/minute' }, cost: () => 1, tier: () => 'gold' }], skip: () => false, count: () => true })
    make({ limiter, onDenied: () => {}, onError: () => {}, http: { body: 'json' }, address: { ipv6Prefix: 48 } })
  })
}

test('the Fastify plugin accepts the options of register', async () => {
  const app = fastify()
  await app.register(slidegate, { limiter, prefix: '/v1', logLevel: 'warn' })
  await app.close()
  const other = fastify()
  await assert.rejects(async () => other.register(slidegate, { limiter, keys: 'ip' }), { code: 'setting' })
})

// A query of a database library is no promise, but has a `then`.
const query = (result) => ({ then: (done) => done(result) })

test('queries that the functions of a rule return are awaited', async () => {
  const counting = new Limiter({ name: 'api', quotas: '1/minute', tiers: { gold: '9/minute' } })
  const functions = { skip: () => query(undefined), key: () => query('k'), cost: () => query(5), tier: () => query('gold') }
  const limit = http({ limiter: counting, ...functions })
  const response = { setHeader() {}, getHeader() {}, on() {} }
  assert.equal(await limit({ headers: {}, socket: {} }, response), true)
  assert.deepEqual(counting.usage('k'), [5])
})

for (const [name, skip] of Object.entries({ now: () => 1, later: async () => 1, query: () => query(1) })) {
  test(`a truthy result of \`skip\` skips the request (${name})`, async () => {
    const counting = new Limiter({ name: 'api', quotas: '1/minute' })
    const limit = http({ limiter: counting, key: () => 'k', skip })
    assert.equal(await limit({ headers: {}, socket: {} }, {}), true)
    assert.deepEqual(counting.usage('k'), [0])
  })
}

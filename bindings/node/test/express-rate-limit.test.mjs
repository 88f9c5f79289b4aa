// The package express-rate-limit itself on the store, with what its documentation requires of one.

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { after, before, test } from 'node:test'

import express from 'express'
import { rateLimit } from 'express-rate-limit'

import { ManualClock } from 'slidegate'
import { SlidegateStore } from 'slidegate/express-rate-limit'

import { startRedis } from './support/redis.mjs'
import { until } from './support/until.mjs'

let redis
before(async () => {
  redis = await startRedis()
})
after(() => redis.stop())

const inRedis = (name) => ({ name, redis: { redis: redis.url, deadline: '10s', connectDeadline: '10s' } })

/** Runs an app of express-rate-limit. `get` returns the status and the headers. */
async function serving({ late, ...options }, use) {
  const app = express()
  const limiter = rateLimit({ windowMs: 60_000, standardHeaders: 'draft-6', ...options })
  app.use(limiter)
  app.get('/', (request, response) => response.json(request.rateLimit))
  app.get('/fail', (_, response) => response.status(500).end())
  app.get('/fail-late', async (_, response) => {
    await late
    response.status(500).end()
  })
  const server = app.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const get = (path = '/') => fetch(`http://127.0.0.1:${server.address().port}${path}`)
  try {
    await use(get, limiter)
  } finally {
    server.close()
    server.closeAllConnections()
  }
}

for (const [place, options] of [
  ['memory', () => ({})],
  ['redis', () => inRedis('counts')],
]) {
  test(`${place}: requests up to the limit are allowed, with the headers of express-rate-limit`, async () => {
    const store = new SlidegateStore(options())
    assert.equal(store.localKeys, place === 'memory')
    await serving({ limit: 2, store }, async (get, limiter) => {
      const first = await get()
      assert.equal(first.headers.get('ratelimit-remaining'), '1')
      // A unit counts until up to 2 ms after its window, and express-rate-limit rounds up.
      assert.match(first.headers.get('ratelimit-reset'), /^6[01]$/)
      const info = await first.json()
      assert.deepEqual([info.limit, info.used, info.remaining], [2, 1, 1])
      assert.equal((await get()).status, 200)
      const denied = await get()
      assert.equal(denied.status, 429)
      assert.ok(Number(denied.headers.get('retry-after')) > 50)
      const { totalHits, resetTime } = await limiter.getKey('127.0.0.1')
      assert.equal(totalHits, 2, 'denied requests are not recorded')
      assert.ok(resetTime > new Date())
      await limiter.resetKey('127.0.0.1')
      assert.equal(await limiter.getKey('127.0.0.1'), undefined)
      assert.equal((await get()).status, 200)
    })
  })

  test(`${place}: increment, decrement, resetKey and the prefix`, async () => {
    const store = new SlidegateStore({ ...options(), name: 'direct', prefix: 'p:' })
    await assert.rejects(store.increment('a'), /calls init/)
    store.init({ windowMs: 60_000, limit: 5 })
    assert.equal(store.prefix, 'p:')
    assert.equal((await store.increment('a')).totalHits, 1)
    const { totalHits, resetTime } = await store.increment('a')
    assert.equal(totalHits, 2)
    assert.ok(resetTime instanceof Date)
    assert.equal((await store.increment('b')).totalHits, 1)
    await store.decrement('a')
    assert.equal((await store.get('a')).totalHits, 1)
    await store.resetKey('a')
    assert.equal(await store.get('a'), undefined)
    assert.equal((await store.get('b')).totalHits, 1)
    if (place === 'memory') {
      store.resetAll()
      assert.equal(await store.get('b'), undefined)
    } else assert.equal(store.resetAll, undefined)
    assert.equal((await store.increment('a')).totalHits, 1)
  })

  test(`${place}: failed requests are skipped, also denied ones`, async () => {
    const store = new SlidegateStore({ ...options(), name: 'skips' })
    await serving({ limit: 2, store, skipFailedRequests: true }, async (get) => {
      for (let turn = 0; turn < 4; turn++) {
        assert.equal((await get('/fail')).status, 500)
        await until(async () => (await store.get('127.0.0.1')) === undefined, 'the failure is taken back')
      }
      assert.equal((await get()).status, 200)
      assert.equal((await get()).status, 200)
      assert.equal((await get()).status, 429)
      await until(async () => (await store.get('127.0.0.1')).totalHits === 2, 'the denial is taken back')
    })
  })
}

for (const [what, options] of [
  ['skipped failures', { limit: 5, skipFailedRequests: true }],
  ['skipped successes', { limit: 5, skipSuccessfulRequests: true }],
  ['a limit of a function', { limit: () => 5 }],
]) {
  const path = what === 'skipped successes' ? '/fail' : '/'

  test(`with ${what}, concurrent requests are decided by one atomic call each`, async () => {
    const store = new SlidegateStore(inRedis(what.replaceAll(' ', '-')))
    await serving({ ...options, store }, async (get) => {
      const statuses = (await Promise.all(Array.from({ length: 20 }, () => get(path)))).map(({ status }) => status)
      assert.equal(statuses.filter((status) => status !== 429).length, 5, `${statuses}`)
    })
  })

  test(`with ${what}, the failure mode decides in an outage`, async () => {
    for (const [failureMode, allowed] of [['allow', 8], ['deny', 0], ['local', 5]]) {
      const store = new SlidegateStore({ redis: 'redis://127.0.0.1:1', failureMode })
      await serving({ ...options, store }, async (get) => {
        const statuses = []
        for (let request = 0; request < 8; request += 1) statuses.push((await get(path)).status)
        assert.equal(statuses.filter((status) => status !== 429).length, allowed, `${failureMode}: ${statuses}`)
      })
    }
  })
}

for (const [place, options] of [
  ['memory', () => ({})],
  ['redis', () => inRedis('own-units')],
]) {
  test(`${place}: a skipped request takes back its own unit`, async () => {
    let end
    const late = new Promise((resolve) => (end = resolve))
    const store = new SlidegateStore(options())
    await serving({ limit: 2, store, skipFailedRequests: true, late }, async (get) => {
      const failing = get('/fail-late')
      await until(async () => (await store.get('127.0.0.1')) !== undefined, 'the request that fails later is counted')
      assert.equal((await get()).status, 200)
      // It has failed, too, and took nothing.
      assert.equal((await get()).status, 429)
      assert.equal((await store.get('127.0.0.1')).totalHits, 2)
      end()
      assert.equal((await failing).status, 500)
      await until(async () => (await store.get('127.0.0.1')).totalHits === 1, 'the failure is taken back')
      assert.equal((await get()).status, 200)
      assert.equal((await get()).status, 429)
    })
  })
}

test('a limit of a function is respected, and denied requests are recorded', async () => {
  const store = new SlidegateStore()
  await serving({ limit: async () => 1, store }, async (get) => {
    assert.equal((await get()).status, 200)
    assert.equal((await get()).status, 429)
    assert.equal((await store.get('127.0.0.1')).totalHits, 2)
  })
})

test('the window slides', async () => {
  const clock = new ManualClock()
  const store = new SlidegateStore({ clock })
  store.init({ windowMs: 1000, limit: 2 })
  const hits = async (at) => {
    clock.set(1_700_000_000_000 + at)
    return (await store.increment('a')).totalHits
  }
  assert.deepEqual([await hits(900), await hits(950), await hits(1100)], [1, 2, 3], 'no burst across a boundary')
  assert.equal(await hits(1900), 2)
})

test('denials are denied if the limit of a decision is lower than that of express-rate-limit', async () => {
  const store = new SlidegateStore({ ...inRedis('band'), guardBand: 0.5 })
  await serving({ limit: 4, store }, async (get) => {
    const first = await (await get()).json()
    assert.deepEqual([first.used, first.remaining], [2, 2], 'a request counts twice with half of the limit')
    assert.equal((await get()).status, 200)
    assert.equal((await get()).status, 429)
  })
  const local = { redis: 'redis://127.0.0.1:1', failureMode: 'local', nodes: 2 }
  await serving({ limit: 4, store: new SlidegateStore(local) }, async (get) => {
    const statuses = [await get(), await get(), await get()].map(({ status }) => status)
    assert.deepEqual(statuses, [200, 200, 429])
  })
})

test('a store that cannot decide allows requests with one use', async () => {
  const store = new SlidegateStore({ redis: 'redis://127.0.0.1:1', failureMode: 'allow' })
  await serving({ limit: 4, store }, async (get) => {
    assert.equal((await (await get()).json()).used, 1)
  })
})

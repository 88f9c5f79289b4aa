// A limiter in Redis: a real server, also one that stops, and processes that share it.

import assert from 'node:assert/strict'
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'

import { checkAll, Limiter, limitersFromYaml, RedisLimiter, RedisStore, SlidegateError } from 'slidegate'

import { FRAMEWORKS } from './support/apps.mjs'
import { startRedis } from './support/redis.mjs'
import { until } from './support/until.mjs'

/** A call of a busy machine may take long, and must not be decided by the failure mode. */
const PATIENT = { deadline: '10s', connectDeadline: '10s' }

let redis
before(async () => {
  redis = await startRedis()
})
after(() => redis.stop())

test('every operation has the result of the limiter in memory', async () => {
  const options = { name: 'same', quotas: ['10/minute', '100/hour'], tiers: { gold: ['50/minute', '500/hour'] } }
  const memory = new Limiter(options)
  const shared = new RedisLimiter({ ...options, redis: { redis: redis.url, ...PATIENT } })
  const play = async (limiter) => {
    const results = []
    const keep = (decision) => {
      const { allowed, limit, remaining, quotas } = decision
      results.push([allowed, limit, remaining, quotas.map((quota) => quota.remaining)])
      return decision
    }
    keep(await limiter.check('a'))
    keep(await limiter.check('a', { cost: 3, tier: 'gold' }))
    const { receipt } = keep(await limiter.reserve('a', 5))
    keep(await limiter.peek('a'))
    results.push(await limiter.settle(receipt, 2))
    results.push(await limiter.usage('a'))
    const last = keep(await limiter.check('a', { cost: 4 }))
    keep(await limiter.check('a'))
    results.push(await limiter.refund(last.receipt))
    keep(await limiter.checkAtMost('a', 100))
    results.push(await limiter.charge('a', 2), await limiter.forgive('a', 1))
    results.push((await limiter.history('a')).reduce((sum, event) => sum + event.units, 0))
    results.push(await limiter.block('a', 60_000), (await limiter.check('a')).blocked)
    results.push(await limiter.unblock('a'), await limiter.reset('a'), await limiter.usage('a'))
    return results
  }
  assert.deepEqual(await play(shared), await play(memory))
  assert.deepEqual(await shared.warnings(), [])
})

for (const inFlightMax of [1024, 2]) {
  test(`10,000 concurrent checks admit exactly the limit, with ${inFlightMax} in flight`, async () => {
    // Every check that Redis does not decide is admitted, which is the default.
    const options = { redis: redis.url, deadline: '500ms', connectDeadline: '10s', inFlightMax }
    const limiter = new RedisLimiter({ name: `burst-${inFlightMax}`, quotas: '100/hour', redis: options })
    await until(async () => (await limiter.check('warm')).degraded === null, 'Redis decides')
    const decisions = await Promise.all(Array.from({ length: 10_000 }, () => limiter.check('a')))
    assert.equal(decisions.filter(({ degraded }) => degraded !== null).length, 0)
    assert.equal(decisions.filter(({ allowed }) => allowed).length, 100)
  })
}

test('limiters of one store decide in one step, and errors have codes', async () => {
  const store = new RedisStore({ redis: redis.url, ...PATIENT })
  const one = new RedisLimiter({ name: 'one', quotas: '5/minute', redis: store })
  const two = new RedisLimiter({ name: 'two', quotas: '1/minute', redis: store, algorithm: 'gcra' })
  const asks = [
    { limiter: one, key: 'a' },
    { limiter: two, key: 'a' },
  ]
  assert.deepEqual((await checkAll(asks)).map((decision) => decision.allowed), [true, true])
  assert.deepEqual((await checkAll(asks)).map((decision) => decision.allowed), [false, false])
  assert.deepEqual(await one.usage('a'), [1])
  await assert.rejects(two.history('a'), { name: 'SlidegateError', code: 'unsupported' })
  await assert.rejects(one.check(3), { code: 'setting' })
  const denied = await two.wait('a', { timeoutMs: 1 })
  assert.equal(denied.allowed, false)
  assert.throws(() => new RedisStore('http://127.0.0.1'), SlidegateError)
})

test('invalid arguments reject the promise of every method', async () => {
  // On a busy machine, a reply may take longer than the default deadline.
  const patient = { redis: redis.url, deadline: '2s' }
  const limiter = new RedisLimiter({ name: 'invalid', quotas: '5/minute', redis: patient })
  const tier = 'none'
  const receipt = { key: 'a', units: 1, tick: 0, epoch: 0 }
  await limiter.refund(receipt)
  const calls = {
    check: () => limiter.check('a', { tier }),
    peek: () => limiter.peek('a', { tier }),
    checkAtMost: () => limiter.checkAtMost(3, 1),
    reserve: () => limiter.reserve('a', 1, tier),
    refund: () => limiter.refund(receipt),
    settle: () => limiter.settle(receipt, 1),
    charge: () => limiter.charge('a', 1, tier),
    forgive: () => limiter.forgive('a', 1, tier),
    usage: () => limiter.usage('a', tier),
    history: () => limiter.history('a', tier),
    reset: () => limiter.reset(3),
    block: () => limiter.block(3, 1),
    unblock: () => limiter.unblock(3),
    wait: () => limiter.wait('a', { tier, timeoutMs: 1 }),
    checkAll: () => checkAll([{ limiter, key: 'a', tier }]),
  }
  for (const [name, call] of Object.entries(calls)) {
    let promise
    assert.doesNotThrow(() => (promise = call()), name)
    await assert.rejects(promise, { code: 'setting' }, name)
  }
  await assert.rejects(limiter.checkAtMost('a', -1), { code: 'cost' })
  await assert.rejects(limiter.refund(undefined))
})

test('calls do not block the event loop', async () => {
  // A server that accepts and never replies, so the calls last until their deadline.
  const sockets = []
  const silent = createServer((socket) => sockets.push(socket)).listen(0, '127.0.0.1')
  await once(silent, 'listening')
  const limiter = new RedisLimiter({
    name: 'silent',
    quotas: '1/minute',
    failureMode: 'deny',
    redis: { redis: `redis://127.0.0.1:${silent.address().port}`, deadline: '300ms', connectDeadline: '300ms' },
  })
  let turns = 0
  const timer = setInterval(() => (turns += 1), 1)
  const checks = Array.from({ length: 20 }, () => limiter.check('a'))
  const decisions = await Promise.all(checks)
  clearInterval(timer)
  for (const socket of sockets) socket.destroy()
  silent.close()
  assert.ok(decisions.every((decision) => !decision.allowed && decision.degraded !== null))
  assert.ok(turns > 5, `timers fired ${turns} times`)
})

test('an app keeps its limits while Redis is stopped, and after it is started again', async () => {
  const server = await startRedis()
  const limiter = new RedisLimiter({
    name: 'outage',
    quotas: '3/hour',
    failureMode: 'local',
    redis: { redis: server.url, deadline: '500ms' },
  })
  const key = { header: 'x-key' }
  const app = await FRAMEWORKS['express 5']({ limiter, key })
  const get = async (key) => (await fetch(`http://127.0.0.1:${app.port}/`, { headers: { 'x-key': key } })).status
  try {
    await until(async () => (await limiter.check('warm')).degraded === null, 'Redis decides')
    assert.deepEqual([await get('a'), await get('a'), await get('a'), await get('a')], [200, 200, 200, 429])
    await server.stop()
    assert.equal(await get('a'), 429, 'the local limiter remembers')
    assert.deepEqual([await get('b'), await get('b'), await get('b'), await get('b')], [200, 200, 200, 429])
    assert.notEqual((await limiter.check('c')).degraded, null)
    const again = await startRedis(server.port)
    try {
      await until(async () => (await limiter.check('d')).degraded === null, 'Redis decides again')
      assert.equal(await get('b'), 429, 'units of the outage still count')
    } finally {
      await again.stop()
    }
  } finally {
    await app.close()
  }
})

test('without a failure mode, every check is allowed while Redis is down', async () => {
  const limiter = new RedisLimiter({ name: 'api', quotas: '1/hour', redis: 'redis://127.0.0.1:1' })
  for (let check = 0; check < 3; check += 1) {
    const decision = await limiter.check('a')
    assert.ok(decision.allowed, `check ${check}`)
    assert.notEqual(decision.degraded, null)
  }
})

/** Calls a function and returns the warnings of the process meanwhile. */
async function emitted(use) {
  const warnings = []
  const keep = (warning) => warning.name === 'SlidegateWarning' && warnings.push(warning)
  process.on('warning', keep)
  try {
    await use(warnings)
  } finally {
    process.off('warning', keep)
  }
}

test('an outage is one warning of the process, with its cause', async () => {
  await emitted(async (warnings) => {
    const limiter = new RedisLimiter({ name: 'api', quotas: '1/hour', redis: 'redis://127.0.0.1:2' })
    // Limiters of other tests may warn, too.
    const own = () => warnings.filter(({ message }) => message.includes('127.0.0.1:2:'))
    await until(async () => (await limiter.check('a')) && own().length > 0, 'a warning')
    for (let check = 0; check < 20; check += 1) await limiter.check('a')
    const [{ message, code }, ...others] = own()
    assert.deepEqual(others, [])
    assert.equal(code, 'SLIDEGATE_DEGRADED')
    assert.match(message, /failure modes decide, because Redis does not: /)
  })
})

test('a logger receives the start and the end of an outage, also if it throws', async () => {
  const server = await startRedis()
  const messages = []
  const logger = { warn: (message) => messages.push(message) }
  const options = { redis: server.url, deadline: '1s', logger }
  const limiter = new RedisLimiter({ name: 'api', quotas: '9999/hour', redis: options })
  await emitted(async (warnings) => {
    await until(async () => (await limiter.check('a')).degraded === null, 'Redis decides')
    const seen = messages.length
    await server.stop()
    await until(async () => (await limiter.check('a')) && messages.length > seen, 'a warning')
    const again = await startRedis(server.port)
    try {
      await until(async () => (await limiter.check('a')).degraded === null, 'Redis decides again')
      await until(() => messages.length > seen + 1, 'the end of the outage')
    } finally {
      await again.stop()
    }
    assert.match(messages[seen], /because Redis does not/)
    assert.match(messages[seen + 1], /Redis decides again; failure modes decided \d+ checks/)
    // Limiters of other tests may warn, too.
    const own = warnings.filter(({ message }) => message.includes(`:${server.port}:`))
    assert.deepEqual(own, [], 'a logger replaces the warnings of the process')
  })
  const yaml = 'stores: {shared: {redis: "redis://127.0.0.1:1"}}\npolicies: [{name: api, quotas: 1/hour, store: shared}]'
  let calls = 0
  const failing = {
    warn() {
      calls += 1
      throw new Error('no log')
    },
  }
  const { api } = limitersFromYaml(yaml, { logger: failing })
  await until(async () => (await api.check('a')) && calls > 0, 'a warning')
  assert.throws(() => new RedisStore({ redis: server.url, logger: 'console' }), /`logger` has no function `warn`/)
})

test('a limiter without a name is rejected, because its state would be that of others', () => {
  const error = { code: 'setting', message: 'a policy in Redis needs a name, which identifies its state: set name' }
  assert.throws(() => new RedisLimiter({ quotas: '1/hour', redis: redis.url }), error)
  assert.throws(() => new RedisLimiter({ name: undefined, quotas: '1/hour', redis: redis.url }), error)
})

test('with the failure mode `deny`, an app responds with 503', async () => {
  const limiter = { name: 'api', quotas: '1/minute', failureMode: 'deny', redis: 'redis://127.0.0.1:1' }
  const app = await FRAMEWORKS.fastify({ limiter })
  const response = await fetch(`http://127.0.0.1:${app.port}/`)
  assert.equal(response.status, 503)
  assert.match(await response.text(), /cannot be checked/)
  await app.close()
})

test('units of responses that do not count are refunded in Redis', async () => {
  const limiter = new RedisLimiter({ name: 'refunded', quotas: '2/hour', redis: { redis: redis.url, ...PATIENT } })
  const app = await FRAMEWORKS['express 5']({ limiter, count: 'failed', key: () => 'k' })
  try {
    for (let turn = 0; turn < 4; turn++) {
      assert.equal((await fetch(`http://127.0.0.1:${app.port}/`)).status, 200)
      await until(async () => (await limiter.usage('k'))[0] === 0, 'the unit of a success is refunded')
    }
  } finally {
    await app.close()
  }
})

test('a cluster of processes shares one limit exactly', async () => {
  const file = fileURLToPath(new URL('support/cluster.mjs', import.meta.url))
  const child = fork(file, [redis.url], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
  const port = await new Promise((resolve, reject) => {
    child.once('message', resolve)
    child.once('exit', (code) => reject(new Error(`the cluster ended with ${code}`)))
  })
  const ended = new Promise((resolve) => child.once('exit', resolve))
  const answer = async () => {
    const response = await fetch(`http://127.0.0.1:${port}/`, { headers: { connection: 'close' } })
    return [response.status, await response.text()]
  }
  const answers = await Promise.all(Array.from({ length: 60 }, answer))
  // The workers end when their parent disconnects.
  child.disconnect()
  await ended
  assert.equal(answers.filter(([status]) => status === 200).length, 25, 'exactly the limit')
  assert.equal(answers.filter(([status]) => status === 429).length, 35)
  const workers = new Set(answers.filter(([status]) => status === 200).map(([, worker]) => worker))
  assert.ok(workers.size > 1, 'more than one process was allowed')
})

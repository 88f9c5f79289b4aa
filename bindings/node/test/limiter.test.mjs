// The limiter in memory: every operation, errors, and waiting.

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { createRequire } from 'node:module'
import { test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

import { checkAll, Limiter, limitersFromYaml, ManualClock, metrics, SlidegateError, waitAll } from 'slidegate'

const make = (options) => new Limiter({ clock: new ManualClock(), ...options })

test('a check has every number of the decision', () => {
  const limiter = make({ name: 'api', quotas: ['2/second', '10/hour'] })
  const first = limiter.check('alice')
  assert.deepEqual(first.toJSON(), {
    allowed: true,
    limit: 2,
    remaining: 1,
    retryAfterMs: 0,
    resetAfterMs: 1000,
    shadowDenied: false,
    blocked: false,
    estimated: false,
    degraded: null,
    quotas: [
      { limit: 2, remaining: 1, retryAfterMs: 0, resetAfterMs: 1000 },
      { limit: 10, remaining: 9, retryAfterMs: 0, resetAfterMs: 3_600_000 },
    ],
  })
  assert.equal(limiter.check('alice').remaining, 0)
  const denied = limiter.check('alice')
  assert.equal(denied.allowed, false)
  assert.equal(denied.retryAfterMs, 1000)
  assert.equal(denied.receipt, null)
  assert.equal(limiter.check('bob').allowed, true)
  assert.deepEqual(limiter.quotas(), [
    { limit: 2, windowMs: 1000 },
    { limit: 10, windowMs: 3_600_000 },
  ])
})

test('earlier decisions are not changed by later checks', () => {
  const limiter = make({ quotas: ['5/second', '6/hour'] })
  const first = limiter.check('a')
  const before = JSON.stringify(first)
  limiter.check('a', { cost: 3 })
  assert.equal(JSON.stringify(first), before)
})

test('tiers, costs, refunds and settlements', () => {
  const limiter = make({ quotas: '10/minute', tiers: { gold: '100/minute' } })
  assert.equal(limiter.check('a', { cost: 4 }).remaining, 6)
  assert.equal(limiter.check('a', { cost: 4, tier: 'gold' }).remaining, 92)
  assert.equal(limiter.peek('a').remaining, 2)
  const { receipt } = limiter.reserve('b', 8)
  assert.equal(limiter.settle(receipt, 3), 3)
  assert.deepEqual(limiter.usage('b'), [3])
  const again = limiter.check('b', { cost: 2 })
  assert.equal(limiter.refund(again.receipt), 2)
  assert.throws(() => limiter.refund(again.receipt), /already refunded or settled/)
  const stored = JSON.stringify(limiter.check('b', { cost: 2 }).receipt)
  assert.equal(limiter.refund(JSON.parse(stored)), 2)
  assert.equal(limiter.checkAtMost('b', 50).receipt.units, 7)
  assert.equal(limiter.charge('b', 5), 5)
  assert.deepEqual(limiter.usage('b'), [15])
  assert.equal(limiter.forgive('b', 5), 5)
  assert.equal(limiter.reset('b'), true)
  assert.equal(limiter.reset('b'), false)
  assert.throws(() => limiter.check('a', { tier: 'silver' }), /no tier "silver"/)
})

test('a receipt has the name of its tier, because other limiters have other numbers', () => {
  const one = make({ quotas: '10/minute', tiers: { free: '1/minute', gold: '100/minute' } })
  const { receipt } = one.check('a', { tier: 'gold' })
  assert.equal(receipt.tier, 'gold')
  const other = make({ quotas: '10/minute', tiers: { huge: '9999/minute', large: '999/minute' } })
  assert.throws(() => other.refund(receipt), /no tier "gold"/)
  assert.throws(() => other.settle(receipt, 5), /no tier "gold"/)
  assert.equal(one.refund(receipt), 1, 'the error has not used it')
  const [several] = checkAll([{ limiter: one, key: 'a', tier: 'gold' }])
  assert.equal(several.receipt.tier, 'gold')
  assert.equal(one.check('a').receipt.tier, undefined)
})

test('more checks than can be decided together are an error and take nothing', async () => {
  const limiter = make({ quotas: '100/minute' })
  const asks = Array.from({ length: 65 }, () => ({ limiter, key: 'a' }))
  assert.throws(() => checkAll(asks), { code: 'setting', message: /65 checks/ })
  await assert.rejects(waitAll(asks, { timeoutMs: 1 }), { code: 'setting', message: /65 checks/ })
  assert.deepEqual(limiter.usage('a'), [0])
})

test('history and blocks', () => {
  const clock = new ManualClock(1_700_000_000_000)
  const limiter = make({ quotas: '10/minute', clock })
  limiter.check('a')
  clock.advance(250)
  limiter.check('a', { cost: 2 })
  assert.deepEqual(limiter.history('a'), [
    { atMs: 1_700_000_000_000, units: 1 },
    { atMs: 1_700_000_000_250, units: 2 },
  ])
  limiter.block('a', 5000)
  assert.equal(limiter.check('a').blocked, true)
  assert.equal(limiter.unblock('a'), true)
  assert.equal(limiter.check('a').allowed, true)
  clock.set(1_700_000_090_000)
  assert.equal(clock.now(), 1_700_000_090_000)
  assert.deepEqual(limiter.usage('a'), [0])
})

test('several limiters decide all or nothing', () => {
  const one = make({ name: 'one', quotas: '5/minute' })
  const two = make({ name: 'two', quotas: '1/minute' })
  const asks = [
    { limiter: one, key: 'a', cost: 2 },
    { limiter: two, key: 'a' },
  ]
  assert.deepEqual(checkAll(asks).map((decision) => decision.allowed), [true, true])
  assert.deepEqual(checkAll(asks).map((decision) => decision.allowed), [false, false])
  assert.deepEqual(one.usage('a'), [2])
  const [first] = checkAll([{ limiter: one, key: 'b' }])
  assert.equal(one.refund(first.receipt), 1)
})

test('shadow mode and percentages allow', () => {
  const shadow = make({ quotas: '1/minute', mode: 'shadow' })
  shadow.check('a')
  const second = shadow.check('a')
  assert.equal(second.allowed, true)
  assert.equal(second.shadowDenied, true)
  const none = make({ quotas: '1/minute', enforcePercent: 0 })
  none.check('a')
  assert.equal(none.check('a').allowed, true)
})

test('a file of the daemon makes limiters', () => {
  const yaml = `
slidegate: 1
listen: {http: 127.0.0.1:8080}
policies:
  - {name: api, quotas: [2/second, 100/hour], tiers: {gold: 5/second}}
  - {name: login, quotas: 5/minute, algorithm: gcra}
rules: [{name: all, key: [address], policy: api}]
`
  const clock = new ManualClock()
  const { api, login } = limitersFromYaml(yaml, { clock })
  assert.equal(api.check('a', { tier: 'gold' }).remaining, 4)
  assert.equal(login.check('a').limit, 5)
  assert.throws(() => limitersFromYaml('policies:\n  - name: a\n    quotas: many'), { code: 'setting', message: /line 3/ })
})

test('errors have codes and say what is allowed', () => {
  const limiter = make({ quotas: '1/minute' })
  const cases = [
    [() => make({ quotas: 'many' }), 'policy', /100\/minute|quota/],
    [() => make({ quotas: '1/minute', limt: 3 }), 'policy', /limt/],
    [() => make({ quotas: '1/minute', memory: { onFull: 'panic' } }), 'setting', /overflow, lru or deny/],
    [() => limiter.check('a', { cost: 0 }), 'cost', /1 to/],
    [() => limiter.check('a', { cost: 1.5 }), 'cost', /integer/],
    [() => limiter.check('a', { cost: -1 }), 'cost', /integer/],
    [() => limiter.check('a', { cost: Number.NaN }), 'cost', /integer/],
    [() => limiter.check(undefined), 'setting', /a key is a string, not undefined/],
    [() => limiter.usage(7), 'setting', /not number/],
    [() => make({ quotas: '1/minute', algorithm: 'gcra' }).history('a'), 'unsupported', /history|gcra/],
    [() => checkAll([{ limiter, key: null }]), 'setting', /not null/],
  ]
  for (const [call, code, message] of cases) {
    assert.throws(call, (error) => {
      assert.ok(error instanceof SlidegateError, `${error}`)
      assert.equal(error.code, code, error.message)
      assert.match(error.message, message)
      return true
    })
  }
})

test('arguments of wrong types never end the process', () => {
  const limiter = make({ quotas: '1/minute' })
  const odd = [undefined, null, 1, {}, [], Symbol('x'), () => {}, 2n ** 70n, 'x'.repeat(1 << 20), '\ud800', new Proxy({}, {})]
  for (const one of odd) {
    for (const method of ['check', 'peek', 'refund', 'settle', 'charge', 'usage', 'history', 'reset', 'block', 'checkAtMost']) {
      try {
        limiter[method](one, one)
      } catch (error) {
        assert.ok(error instanceof Error)
      }
    }
    try {
      limiter.gate.checkLater(one, one, one)
    } catch (error) {
      assert.ok(error instanceof Error)
    }
  }
  assert.equal(limiter.check('still here').allowed, true)
})

test('a wait takes units as soon as they are available', async () => {
  const clock = new ManualClock()
  const limiter = make({ quotas: '1/minute', clock })
  limiter.check('a')
  const waiting = limiter.wait('a', { timeoutMs: 120_000 })
  clock.advance(60_001)
  assert.equal((await waiting).allowed, true)
  const denied = await limiter.wait('a', { timeoutMs: 10 })
  assert.equal(denied.allowed, false, 'a wait that takes too long is denied at once')
})

test('an aborted wait takes nothing', async () => {
  const clock = new ManualClock()
  const limiter = make({ quotas: '1/minute', clock })
  limiter.check('a')
  const controller = new AbortController()
  const waiting = limiter.wait('a', { timeoutMs: 600_000, signal: controller.signal })
  controller.abort(new Error('no longer needed'))
  await assert.rejects(waiting, /no longer needed/)
  await assert.rejects(limiter.wait('a', { timeoutMs: 1, signal: AbortSignal.abort() }), { name: 'AbortError' })
  clock.advance(60_001)
  assert.equal(limiter.check('a').allowed, true)
})

test('limiters that are no longer used are freed, and the others keep their state', async () => {
  const kept = make({ quotas: '5/minute' })
  kept.check('a')
  setFlagsFromString('--expose-gc')
  const gc = runInNewContext('gc')
  for (let turn = 0; turn < 20; turn++) {
    for (let count = 0; count < 50; count++) make({ quotas: '1/minute' }).check('a')
    gc()
    await new Promise((resolve) => setImmediate(resolve))
  }
  assert.equal(kept.check('a').remaining, 3)
  assert.ok(make({ quotas: '1/minute' }).gate.number < 900, 'numbers of limiters are used again')
})

test('metrics count decisions', () => {
  const limiter = make({ name: 'counted', quotas: '1/minute' })
  limiter.check('a')
  limiter.check('a')
  assert.match(metrics(), /policy="counted"[^\n]*outcome="denied"[^\n]* 1\n/)
})

test('a process with limiters can exit', () => {
  const script = `
    const { Limiter, RedisLimiter } = require('slidegate')
    new Limiter({ quotas: '1/minute' }).check('a')
    const redis = new RedisLimiter({ name: 'api', quotas: '1/minute', redis: { redis: 'redis://127.0.0.1:1', logger: { warn() {} } }, failureMode: 'deny' })
    redis.check('a').then((decision) => console.log(decision.allowed, decision.degraded))`
  const { stdout, stderr, status } = spawnSync(process.execPath, ['-e', script], {
    cwd: new URL('..', import.meta.url),
    encoding: 'utf8',
    timeout: 60_000,
  })
  assert.equal(stderr, '')
  assert.match(stdout, /^false \w+\n$/)
  assert.equal(status, 0)
})

test('CommonJS and ES modules share one package', () => {
  const require = createRequire(import.meta.url)
  assert.equal(require('slidegate').Limiter, Limiter)
})

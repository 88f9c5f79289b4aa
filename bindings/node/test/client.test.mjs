// The client on a fake clock: fields, holds, backoff, retries, bounds.

import assert from 'node:assert/strict'
import { test } from 'node:test'

import { Pacer, parseWait, readLimits } from 'slidegate/client'

const NOW = 1_700_000_000_000

/** A clock whose timers fire when it is advanced. */
class FakeTime {
  constructor(random = () => 0) {
    this.millis = 0
    this.timers = new Set()
    this.environment = {
      now: () => this.millis,
      time: () => NOW + this.millis,
      random,
      after: (millis, call) => {
        const timer = { at: this.millis + millis, call }
        this.timers.add(timer)
        return () => this.timers.delete(timer)
      },
    }
  }

  /** Advances to the next timer, or by a time. */
  async advance(millis) {
    const end = this.millis + millis
    for (;;) {
      await turn()
      const due = [...this.timers].filter((timer) => timer.at <= end).sort((one, other) => one.at - other.at)[0]
      if (due === undefined) break
      this.timers.delete(due)
      this.millis = Math.max(this.millis, due.at)
      due.call()
    }
    this.millis = end
    await turn()
  }
}

const turn = () => new Promise((resolve) => setImmediate(resolve))
const fields = (object) => (name) => object[name]

function pacing(settings, random) {
  const time = new FakeTime(random)
  const pacer = new Pacer(settings, time.environment)
  const send = async (ticket = pacer.ticket('host'), signal) => {
    await pacer.acquire(ticket, signal)
    return { ticket, at: time.millis }
  }
  return { time, pacer, send }
}

test('all forms of the fields are read', () => {
  const read = (headers) => readLimits(fields(headers), NOW).quotas.map(clean)
  const clean = (quota) => Object.fromEntries(Object.entries(quota).filter(([, value]) => value !== undefined))
  assert.deepEqual(
    read({ ratelimit: '"a,1";r=9;t=60, "b";r=0;t=1', 'ratelimit-policy': '"a,1";q=10;w=60, "b";q=5;w=1' }),
    [
      { name: 'a,1', remaining: 9, resetAfterMs: 60_000, limit: 10, windowMs: 60_000 },
      { name: 'b', remaining: 0, resetAfterMs: 1000, limit: 5, windowMs: 1000 },
    ],
  )
  const one = { limit: 100, remaining: 99, resetAfterMs: 60_000 }
  assert.deepEqual(read({ ratelimit: 'limit=100, remaining=99, reset=60' }), [one])
  for (const family of ['ratelimit', 'x-ratelimit', 'x-rate-limit']) {
    const headers = { [`${family}-limit`]: '100', [`${family}-remaining`]: '99', [`${family}-reset`]: '60' }
    assert.deepEqual(read(headers), [one])
  }
  const epoch = { 'x-ratelimit-limit': '100', 'x-ratelimit-remaining': '99', 'x-ratelimit-reset': String(NOW / 1000 + 60) }
  assert.deepEqual(read(epoch), [one])
  assert.deepEqual(read({ ...epoch, 'x-ratelimit-reset': String(NOW + 60_000) }), [one])
  const envoy = { 'x-ratelimit-limit': '10, 10;w=60', 'x-ratelimit-remaining': '3', 'x-ratelimit-reset': '7' }
  assert.deepEqual(read(envoy), [{ limit: 10, remaining: 3, resetAfterMs: 7000, windowMs: 60_000 }])
  assert.deepEqual(read({ ratelimit: '"a";r=1', age: '5' }), [], 'a cached response')
  for (const odd of ['', ',;=', '"', '((', '"a";r=-1', 'limit=x', 'x'.repeat(10_000), '"a"'.repeat(999)]) {
    readLimits(fields({ ratelimit: odd, 'ratelimit-policy': odd, 'x-ratelimit-limit': odd, 'retry-after': odd, date: odd }), NOW)
  }
})

test('waits are seconds, times since the epoch, or dates', () => {
  assert.equal(parseWait('30', NOW), 30_000)
  assert.equal(parseWait('0.5', NOW), 500)
  assert.equal(parseWait('-3', NOW), 0)
  assert.equal(parseWait(String(NOW / 1000 + 30), NOW), 30_000)
  assert.equal(parseWait(new Date(NOW + 30_000).toUTCString(), NOW), 30_000)
  assert.equal(parseWait(new Date(NOW - 30_000).toUTCString(), NOW), 0)
  assert.equal(parseWait('soon', NOW), undefined)
  assert.ok(parseWait('999999999', NOW) <= 10 * 366 * 86_400_000)
  const date = { date: new Date(NOW - 3_600_000).toUTCString(), 'retry-after': new Date(NOW - 3_590_000).toUTCString() }
  assert.equal(readLimits(fields(date), NOW).retryAfterMs, 10_000, 'the date of the server')
})

test('a refusal holds all requests of its host, and none is early', async () => {
  const { time, pacer, send } = pacing({}, () => 0.5)
  const { ticket } = await send()
  assert.equal(pacer.respond(ticket, 429, fields({ 'retry-after': '10' }), 'always'), true)
  const waiting = [send(ticket), send(), send()]
  const other = await send(pacer.ticket('other'))
  assert.equal(other.at, 0)
  await time.advance(10_499)
  assert.equal(pacer.stats().waiting, 3)
  await time.advance(1)
  const sent = await Promise.all(waiting)
  assert.deepEqual(sent.map(({ at }) => at), [10_500, 10_500, 10_500], 'the wait and 5 %, half of the jitter')
})

test('a refusal without a time is retried after exponential backoff of at most 30 s', async () => {
  const { time, pacer, send } = pacing({ attemptsMax: 20, deadlineMs: 1e9, budgetFloor: 100 }, () => 1)
  const { ticket } = await send()
  const waits = []
  for (let turn = 0; turn < 9; turn++) {
    const before = time.millis
    assert.equal(pacer.respond(ticket, 503, fields({}), 'always'), true)
    const again = send(ticket)
    await time.advance(60_000)
    waits.push((await again).at - before)
  }
  assert.deepEqual(waits, [500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000])
})

test('only safe requests are retried, within attempts, budget and deadline', async () => {
  const refuse = async (settings, status, repeat, headers = {}) => {
    const { pacer, send } = pacing(settings)
    const { ticket } = await send()
    return pacer.respond(ticket, status, fields(headers), repeat)
  }
  assert.equal(await refuse({}, 503, 'always'), true)
  assert.equal(await refuse({}, 503, 'refused'), false)
  assert.equal(await refuse({}, 429, 'refused'), true)
  assert.equal(await refuse({ repeatRefused: false }, 429, 'refused'), false)
  assert.equal(await refuse({}, 429, 'never'), false)
  assert.equal(await refuse({}, 500, 'always'), false)
  assert.equal(await refuse({ attemptsMax: 1 }, 429, 'always'), false)
  assert.equal(await refuse({ budgetFloor: 0 }, 429, 'always'), false)
  assert.equal(await refuse({ deadlineMs: 5000 }, 429, 'always', { 'retry-after': '6' }), false)
})

test('the budget allows 10 % of the requests', async () => {
  const { time, pacer, send } = pacing({ pacing: false, backoffFirstMs: 0, backoffMaxMs: 0, budgetFloor: 5 })
  let retries = 0
  for (let turn = 0; turn < 200; turn++) {
    const { ticket } = await send()
    if (pacer.respond(ticket, 503, fields({}), 'always')) {
      retries += 1
      await send(ticket)
      pacer.respond(ticket, 200, fields({}), 'always')
    }
  }
  assert.equal(retries, 25, 'the floor of 5 and 10 % of 200')
  assert.equal(time.millis, 0)
})

test('requests are paced in the window of the server', async () => {
  const { time, pacer, send } = pacing({ reservePercent: 0 })
  const headers = (remaining) => fields({ ratelimit: `"a";r=${remaining};t=10`, 'ratelimit-policy': '"a";q=3;w=10' })
  for (let turn = 0; turn < 3; turn++) {
    const { ticket } = await send()
    pacer.respond(ticket, 200, headers(2 - turn), 'always')
    await time.advance(100)
  }
  const fourth = send()
  await time.advance(20_000)
  assert.equal((await fourth).at, 10_000, 'when the first request leaves the window')
  assert.equal(pacer.stats().refusals, 0)
})

test('several quotas without names are paced separately', async () => {
  const { time, pacer, send } = pacing({ reservePercent: 0 })
  const headers = fields({ 'x-ratelimit-limit': '3, 3;w=10, 1000;w=3600', 'x-ratelimit-remaining': '2' })
  pacer.respond((await send()).ticket, 200, headers, 'always')
  const later = [send(), send(), send()]
  await time.advance(20_000)
  const [second, third, fourth] = await Promise.all(later)
  assert.deepEqual([second.at, third.at, fourth.at], [0, 0, 10_000], 'three in ten seconds')
})

test('a named quota of one route does not hold the requests of others', async () => {
  const { time, pacer, send } = pacing({ reservePercent: 0 })
  const search = fields({ ratelimit: '"search";r=9;t=60', 'ratelimit-policy': '"search";q=10;w=60' })
  const items = fields({ ratelimit: '"items";r=900;t=60', 'ratelimit-policy': '"items";q=1000;w=60' })
  pacer.respond((await send()).ticket, 200, search, 'always')
  for (let turn = 0; turn < 30; turn++) {
    const { ticket, at } = await Promise.race([send(), time.advance(1).then(() => ({}))])
    assert.ok(at !== undefined, `request ${turn} is not held`)
    pacer.respond(ticket, 200, items, 'always')
  }
})

test('with only the remaining units, one request probes after the reset', async () => {
  const { time, pacer, send } = pacing()
  const headers = (remaining, reset) => fields({ 'x-ratelimit-remaining': String(remaining), 'x-ratelimit-reset': String(reset) })
  const { ticket } = await send()
  pacer.respond(ticket, 200, headers(0, 5), 'always')
  const waiting = [send(), send()]
  await time.advance(5000)
  const probe = await waiting[0]
  assert.equal(probe.at, 5000)
  assert.equal(pacer.stats().waiting, 1)
  pacer.respond(probe.ticket, 200, headers(9, 5), 'always')
  assert.equal((await waiting[1]).at, 5000)
})

test('the first request to a host is sent alone', async () => {
  const { time, pacer, send } = pacing()
  const first = await send()
  const second = send()
  await turn()
  assert.equal(pacer.stats().waiting, 1)
  pacer.respond(first.ticket, 200, fields({}), 'always')
  assert.equal((await second).at, 0)
  pacer.fail((await second).ticket)
  const [lost, next] = [await send(pacer.ticket('b')), send(pacer.ticket('b'))]
  assert.equal(lost.at, 0)
  await time.advance(1000)
  assert.equal((await next).at, 1000, 'a response that never comes')
})

test('an aborted request leaves the queue', async () => {
  const { time, pacer, send } = pacing()
  const { ticket } = await send()
  pacer.respond(ticket, 429, fields({ 'retry-after': '10' }), 'always')
  const controller = new AbortController()
  const aborted = send(pacer.ticket('host'), controller.signal)
  const other = send()
  controller.abort(new Error('no longer needed'))
  await assert.rejects(aborted, /no longer needed/)
  await assert.rejects(send(pacer.ticket('host'), AbortSignal.abort()), { name: 'AbortError' })
  assert.equal(pacer.stats().waiting, 1)
  await time.advance(10_000)
  assert.equal((await other).at, 10_000)
})

test('waits, waiting requests, refusals and hosts are bounded', async () => {
  const { time, pacer, send } = pacing({ deadlineMs: 5000, waitersMax: 1, refusalsMax: 2, scopesMax: 1, refusalsWindowMs: 60_000 })
  const { ticket } = await send()
  pacer.respond(ticket, 429, fields({ 'retry-after': '4' }), 'never')
  await assert.rejects(send(pacer.ticket('other')), { code: 'scopes' })
  const waiting = send()
  await assert.rejects(send(), { code: 'waiters' })
  await time.advance(4000)
  const second = (await waiting).ticket
  pacer.respond(second, 429, fields({ 'retry-after': '7' }), 'always')
  await assert.rejects(send(), { code: 'stopped', waitMs: 60_000 })
  await time.advance(60_001)
  const third = (await send()).ticket
  pacer.respond(third, 429, fields({ 'retry-after': '7' }), 'always')
  await assert.rejects(send(), { name: 'PacingError', code: 'deadline', waitMs: 7000 })
  assert.throws(() => new Pacer({ attemptMax: 1 }), /unknown setting attemptMax/)
  assert.throws(() => new Pacer({ deadlineMs: -1 }), /deadlineMs/)
})

test('a thousand refused clients return spread out, none early', async () => {
  let seed = 1
  const random = () => (seed = (seed * 16_807) % 2_147_483_647) / 2_147_483_647
  const seconds = new Map()
  for (let client = 0; client < 1000; client++) {
    const { time, pacer, send } = pacing({}, random)
    const { ticket } = await send()
    pacer.respond(ticket, 429, fields({ 'retry-after': '60' }), 'always')
    const again = send(ticket)
    await time.advance(70_000)
    const second = Math.floor((await again).at / 1000)
    assert.ok(second >= 60)
    seconds.set(second, (seconds.get(second) ?? 0) + 1)
  }
  assert.ok(Math.max(...seconds.values()) <= 400, `${[...seconds]}`)
})

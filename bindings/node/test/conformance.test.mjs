// Every trace of `conformance/` gets the expected decisions from a Limiter with a manual clock.

import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { test } from 'node:test'

import { Limiter, ManualClock } from 'slidegate'

const folder = new URL('../../../conformance/', import.meta.url)
const files = readdirSync(folder).filter((name) => name.endsWith('.json'))
const traces = files
  .map((name) => JSON.parse(readFileSync(new URL(name, folder), 'utf8')))
  // The package does not offer it.
  .filter(({ requires = [] }) => !requires.includes('forgive'))

/** Returns the options of the policy of a trace. */
export function policyOf({ policy }, clock) {
  const { algorithm, quotas, segments, bytes_max, mode, tick_ms = 1, tiers } = policy
  const quota = ({ limit, window_ms }) => ({ limit, windowMs: window_ms })
  const others = Object.entries(tiers ?? {}).map(([name, list]) => [name, list.map(quota)])
  let chosen = algorithm
  if (algorithm === 'segments') chosen = { segments }
  if (bytes_max !== undefined) chosen = { log_capped: bytes_max }
  return {
    name: 'trace',
    quotas: quotas.map(quota),
    algorithm: chosen,
    mode: mode ?? 'enforce',
    tick: `${tick_ms}ms`,
    tiers: Object.fromEntries(others),
    memory: { limitMb: 64 },
    clock,
  }
}

/** Runs one operation, and returns what `expect` compares. */
function play(limiter, step, receipts) {
  const { op, key = 'k', cost = 1, tier } = step
  const keep = (decision) => {
    if (step.as !== undefined && decision.receipt) receipts.set(step.as, decision.receipt)
    const units = decision.receipt?.units ?? 0
    return { ...shape(decision), receipt: decision.receipt !== null, units }
  }
  const consume = () => {
    const receipt = receipts.get(step.of)
    assert.ok(receipt, `there is no receipt ${step.of}`)
    receipts.delete(step.of)
    return receipt
  }
  switch (op) {
    case 'check':
      return keep(limiter.check(key, { cost, tier }))
    case 'reserve':
      return keep(limiter.reserve(key, cost))
    case 'check_at_most':
      return keep(limiter.checkAtMost(key, cost))
    case 'peek':
      return shape(limiter.peek(key, { cost }))
    case 'charge':
      return { units: limiter.charge(key, cost) }
    case 'refund':
      return { units: limiter.refund(consume()) }
    case 'settle':
      return { units: limiter.settle(consume(), step.actual) }
    case 'block':
      return { done: limiter.block(key, step.for_ms) }
    case 'unblock':
      return { found: limiter.unblock(key) }
    case 'reset':
      return { found: limiter.reset(key) }
    case 'usage':
      return { used: limiter.usage(key) }
    case 'history':
      return { history: limiter.history(key) }
    case 'clock':
      return {}
    default:
      throw new Error(`unknown operation ${op}`)
  }
}

function shape(decision) {
  return {
    allowed: decision.allowed,
    shadow_denied: decision.shadowDenied,
    remaining: decision.quotas.map((quota) => quota.remaining),
    retry_after_ms: decision.retryAfterMs,
    reset_after_ms: decision.resetAfterMs,
  }
}

function run(trace) {
  const clock = new ManualClock(trace.start_ms ?? 0)
  const limiter = new Limiter(policyOf(trace, clock))
  const receipts = new Map()
  trace.steps.forEach((step, index) => {
    let got
    let allowed_count = 0
    for (let turn = 0; turn < (step.repeat ?? 1); turn++) {
      clock.set((trace.start_ms ?? 0) + step.at_ms + turn * (step.every_ms ?? 0))
      got = play(limiter, step, receipts)
      allowed_count += got.allowed ? 1 : 0
    }
    if (got.history) {
      got.history = got.history.map(({ atMs, units }) => [atMs - (trace.start_ms ?? 0), units])
    }
    const expected = { ...step.expect }
    if (expected.history) expected.history = byInstant(expected.history)
    for (const [field, value] of Object.entries(expected)) {
      const actual = field === 'allowed_count' ? allowed_count : got[field]
      assert.deepEqual(actual, value, `step ${index + 1} (${JSON.stringify(step)}): ${field}`)
    }
  })
  return trace.steps.length
}

/** A store reports all units of one tick as one event. */
function byInstant(events) {
  const merged = []
  for (const [at, units] of events) {
    if (merged.length > 0 && merged.at(-1)[0] === at) merged.at(-1)[1] += units
    else merged.push([at, units])
  }
  return merged
}

test('every trace gets the expected decisions', async (t) => {
  assert.ok(traces.length > 100, `only ${traces.length} traces`)
  for (const trace of traces) {
    await t.test(trace.name, () => assert.ok(run(trace) > 0))
  }
})

test('a wrong expectation fails', () => {
  const trace = structuredClone(traces.find((trace) => trace.name === 'log-boundary-attack'))
  const step = trace.steps.find((step) => step.expect?.allowed !== undefined)
  step.expect.allowed = !step.expect.allowed
  assert.throws(() => run(trace), /allowed/)
})

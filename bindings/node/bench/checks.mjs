// Processor time per check and bytes per key, compared with other limiters in memory.
//
//   node checks.mjs [ROUNDS]
//   node --expose-gc checks.mjs bytes NUMBER   (of the limiter: 0 to 3, a process for each)
//
// All limiters take turns in every round, and the median of the rounds counts. Processor time is less
// affected by other programs than the time that passes. `rolling-rate-limiter` stores every time, so it is exact like slidegate.
// The others count in fixed windows, which admit up to twice the limit around a boundary.

import { MemoryStore } from 'express-rate-limit'
import { RateLimiterMemory } from 'rate-limiter-flexible'
import rolling from 'rolling-rate-limiter'

import { Limiter } from 'slidegate'

const ROUNDS = Number(process.argv[2] ?? 15)
const CALLS = 20_000
const KEYS = 10_000
const LIMIT = 100
const KEYS_IN_MEMORY = 20_000
const keys = Array.from({ length: KEYS }, (_, number) => `10.0.${number >> 8}.${number & 255}`)

/** Each function returns a check of one key. All await their result, as their callers do. */
const LIMITERS = {
  'slidegate Limiter (exact)': (limit) => {
    const limiter = new Limiter({ quotas: { limit, windowMs: 3_600_000 } })
    return (key) => limiter.check(key).allowed
  },
  'rolling-rate-limiter InMemoryRateLimiter (exact)': (limit) => {
    const limiter = new rolling.InMemoryRateLimiter({ interval: 3_600_000, maxInInterval: limit })
    return (key) => limiter.limit(key)
  },
  'rate-limiter-flexible RateLimiterMemory (fixed window)': (limit) => {
    const limiter = new RateLimiterMemory({ points: limit, duration: 3600 })
    return (key) => limiter.consume(key).catch(() => false)
  },
  'express-rate-limit MemoryStore (fixed window)': () => {
    const store = new MemoryStore()
    store.init({ windowMs: 3_600_000 })
    return (key) => store.increment(key)
  },
}

const median = (list) => list.toSorted((one, other) => one - other)[list.length >> 1]
const settle = () => new Promise((resolve) => setImmediate(resolve))

/** Returns the processor time of a call in nanoseconds, garbage collection included. */
async function time(check) {
  const start = process.cpuUsage()
  for (let call = 0; call < CALLS; call++) {
    const result = check(keys[(call * 7919) % KEYS])
    if (result instanceof Promise) await result
  }
  const { user, system } = process.cpuUsage(start)
  return ((user + system) * 1000) / CALLS
}

/** Returns the bytes of a key with `LIMIT` requests, native memory included. */
async function bytes(make) {
  const many = Array.from({ length: KEYS_IN_MEMORY }, (_, number) => `10.${number >> 16}.${(number >> 8) & 255}.${number & 255}`)
  // The heap grows to its working size before the measurement.
  const warm = make(LIMIT)
  for (let call = 0; call < 500_000; call++) await warm(many[call % 1000])
  await collect()
  const before = process.memoryUsage().rss
  const check = make(LIMIT)
  for (let turn = 0; turn < LIMIT; turn++) {
    for (const key of many) await check(key)
  }
  await collect()
  const used = process.memoryUsage().rss - before
  // The limiters and the keys are still in use.
  await Promise.all([warm(many[0]), check(many[0])])
  return used / KEYS_IN_MEMORY
}

async function collect() {
  for (let turn = 0; turn < 3; turn++) {
    globalThis.gc()
    await settle()
  }
}

if (process.argv[2] === 'bytes') {
  const [name, make] = Object.entries(LIMITERS)[Number(process.argv[3])]
  console.log(`${name}: ${Math.round(await bytes(make))} bytes per key at ${LIMIT} requests`)
} else {
  const names = Object.keys(LIMITERS)
  for (const limit of [LIMIT, 10]) {
    const checks = names.map((name) => LIMITERS[name](limit))
    const times = names.map(() => [])
    for (let round = 0; round < ROUNDS; round++) {
      for (const [place, check] of checks.entries()) times[place].push(await time(check))
    }
    console.log(`limit ${limit}, ${KEYS} keys, ${ROUNDS} rounds of ${CALLS} checks:`)
    for (const [place, name] of names.entries()) {
      const ratios = times[place].map((nanos, round) => nanos / times[0][round])
      console.log(`  ${name}: ${Math.round(median(times[place]))} ns per check, ${median(ratios).toFixed(1)}x`)
    }
  }
}
// Some limiters leave timers.
process.exit(0)

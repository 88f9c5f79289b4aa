/** Exact sliding-window rate limits in memory and in Redis. */

export { clientAddress, type AddressOptions } from './address.js'
export { ManualClock } from './clock.js'
export { Decision, type QuotaDecision, type Receipt } from './decision.js'
export { SlidegateError, type ErrorCode } from './errors.js'
export type { Logger } from './logger.js'
export {
  checkAll,
  limitersFromYaml,
  Limiter,
  metrics,
  RedisLimiter,
  waitAll,
  type Admission,
  type AnyLimiter,
  type Ask,
  type CheckOptions,
  type WaitOptions,
} from './limiter.js'
export type {
  Algorithm,
  MemoryLimiterOptions,
  PolicyOptions,
  Quota,
  RedisLimiterOptions,
  RedisOptions,
} from './policy.js'
export { RedisStore } from './store.js'

/** The options of policies and stores. Keys may also be spelled as in a file of the daemon. */

import type { ManualClock } from './clock.js'
import type { Logger } from './logger.js'
import type { RedisStore } from './store.js'

/** `limit` units in any interval of the window: `100/minute`, or an object. */
export type Quota = string | { limit: number; windowMs: number } | { limit: number; window: string }

/** The algorithm. `log`, the default, is exact. */
export type Algorithm = 'log' | 'counter' | 'gcra' | 'fixed' | { segments: number } | { log_capped: number }

export interface PolicyOptions {
  /** The name in header fields and metrics. `default` by default. */
  name?: string
  /** One to eight quotas. A request takes from all or from none. */
  quotas: Quota | Quota[]
  algorithm?: Algorithm
  /** `shadow` evaluates and never denies. `off` does nothing. `enforce` by default. */
  mode?: 'enforce' | 'shadow' | 'off'
  /** The percentage of keys for which denials are enforced. */
  enforcePercent?: number
  /** Quotas that are evaluated for comparison and never enforced. */
  candidate?: { quotas: Quota | Quota[]; algorithm?: Algorithm }
  /** Other quotas for some keys, by name. */
  tiers?: Record<string, Quota | Quota[]>
  /** The decision when the store fails: `allow` by default. */
  failureMode?: 'allow' | 'deny' | 'local'
  /** Whether keys are secrets, which leave this process only as a digest. */
  secretKeys?: boolean
  /** What a unit is, for clients: `requests` by default. */
  quotaUnit?: string
  /** The unit of stored time, such as `1ms`. */
  tick?: string
}

/** Options of a limiter in memory. */
export interface MemoryLimiterOptions extends PolicyOptions {
  memory?: {
    /** The memory limit in MiB: 256 by default. */
    limitMb?: number
    /** What happens to a key that does not fit: `overflow` by default, which over-counts. */
    onFull?: 'overflow' | 'lru' | 'deny'
  }
  /** A clock for tests. */
  clock?: ManualClock
}

/** Options of a limiter in Redis. */
export interface RedisLimiterOptions extends PolicyOptions {
  /** The name in header fields, metrics and Redis. Limiters with the same name in one Redis share their state. */
  name: string
  /** The store: one address, options, or a store that several limiters share. */
  redis: string | RedisOptions | RedisStore
  /** The number of processes among which the limit is divided while Redis fails. */
  nodes?: number
  /** The share of every limit that is used. */
  guardBand?: number
  /** The number of keys whose denials are cached in this process. */
  denyCache?: number
  /** How long units are leased to this process, such as `50ms`. */
  leases?: string
}

/** The connection to Redis or Valkey. Exactly one of `redis`, `sentinel` and `cluster` is set. */
export interface RedisOptions {
  /** One server: `redis://127.0.0.1:6379`. */
  redis?: string
  sentinel?: { addresses: string[]; service: string }
  cluster?: string[]
  username?: string
  password?: string
  passwordFile?: string
  database?: number
  /** The prefix of all keys: `sg` by default. */
  prefix?: string
  /** The secret with which secret keys are hashed. */
  keySecret?: string
  keySecretFile?: string
  /** The maximum time of a call, such as `20ms`. After that, the failure mode decides. */
  deadline?: string
  connectDeadline?: string
  inFlightMax?: number
  checksPerCallMax?: number
  /** A file with certificate authorities as PEM. */
  tlsAuthority?: string
  /**
   * Receives a warning with the cause when Redis no longer decides, and one with the number of checks that failure modes
   * decided when it does again. `process.emitWarning` by default.
   */
  logger?: Logger
}

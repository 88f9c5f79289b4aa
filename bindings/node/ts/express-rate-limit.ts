/** A store for the package `express-rate-limit`. */

import type { ClientRateLimitInfo, Options, Store } from 'express-rate-limit'

import { SlidegateError } from './errors.js'
import { Limiter, RedisLimiter, type AnyLimiter } from './limiter.js'
import type { MemoryLimiterOptions, RedisLimiterOptions } from './policy.js'

/** Options of the store. `quotas` follow from `windowMs` and `limit` of express-rate-limit. */
export type StoreOptions = Omit<MemoryLimiterOptions, 'quotas' | 'tiers' | 'candidate' | 'mode'> &
  Partial<Pick<RedisLimiterOptions, 'redis' | 'nodes' | 'guardBand' | 'denyCache'>> & {
    /** Starts every key. */
    prefix?: string
  }

/** The limit of the window if express-rate-limit calculates it for every request. */
const LIMIT_MAX = 2 ** 31

/**
 * Makes express-rate-limit exact: the window slides.
 *
 * Denied requests are not recorded, so a client that keeps sending is allowed again as soon as its
 * oldest request expires. If the limit is a function, or failed or successful requests are skipped,
 * denied requests are recorded like those of other stores.
 */
export class SlidegateStore implements Store {
  /** Whether keys are in this process. */
  readonly localKeys: boolean
  /** Starts every key. */
  readonly prefix: string
  /** Removes all keys. Only in memory. */
  readonly resetAll?: () => void
  private limiter: AnyLimiter | undefined
  private limit = LIMIT_MAX
  private recordsDenied = false
  private windowMs = 0

  constructor(private readonly options: StoreOptions = {}) {
    this.localKeys = options.redis === undefined
    this.prefix = options.prefix ?? ''
    if (this.localKeys) this.resetAll = () => this.create()
  }

  /** Takes the window and the limit. express-rate-limit calls it. */
  init(options: Options): void {
    const { windowMs, limit, skipFailedRequests, skipSuccessfulRequests } = options
    this.recordsDenied = typeof limit === 'function' || skipFailedRequests || skipSuccessfulRequests
    this.limit = typeof limit === 'number' ? limit : LIMIT_MAX
    this.windowMs = windowMs
    this.create()
  }

  /** Counts a request. */
  async increment(key: string): Promise<ClientRateLimitInfo> {
    const limiter = this.ready()
    if (!this.recordsDenied) {
      const decision = await limiter.check(this.prefix + key)
      const { allowed, limit, remaining, retryAfterMs, resetAfterMs } = decision
      const after = allowed ? resetAfterMs : (retryAfterMs ?? this.windowMs)
      // express-rate-limit compares with its own limit. That of a decision is lower with a guard band, and
      // while each process enforces a share. While Redis fails, an allowed request may have no quota.
      const used = limit === 0 ? 1 : Math.min(this.limit, Math.max(1, this.limit - remaining))
      return { totalHits: allowed ? used : this.limit + 1, resetTime: new Date(Date.now() + after) }
    }
    await limiter.charge(this.prefix + key, 1)
    return (await this.get(key)) ?? { totalHits: 1, resetTime: new Date(Date.now() + this.windowMs) }
  }

  /** Returns the count of a key without counting a request. */
  async get(key: string): Promise<ClientRateLimitInfo | undefined> {
    const limiter = this.ready()
    const used = await limiter.usage(this.prefix + key)
    const totalHits = used[0] ?? 0
    if (totalHits === 0) return undefined
    const { retryAfterMs, resetAfterMs } = await limiter.peek(this.prefix + key)
    return { totalHits, resetTime: new Date(Date.now() + (retryAfterMs || resetAfterMs)) }
  }

  /** Takes a request back. */
  async decrement(key: string): Promise<void> {
    await this.ready().forgive(this.prefix + key, 1)
  }

  /** Removes a key. */
  async resetKey(key: string): Promise<void> {
    await this.ready().reset(this.prefix + key)
  }

  private create(): void {
    const { prefix: _, redis, clock, ...policy } = this.options
    const quotas = { limit: this.limit, windowMs: this.windowMs }
    const named = { name: 'express-rate-limit', ...policy, quotas }
    this.limiter = redis === undefined ? new Limiter({ ...named, clock }) : new RedisLimiter({ ...named, redis })
  }

  private ready(): AnyLimiter {
    if (this.limiter !== undefined) return this.limiter
    throw new SlidegateError('setting', 'the store is not used by rateLimit() yet: it calls init')
  }
}

/** A store for the package `express-rate-limit`. */

import { AsyncLocalStorage } from 'node:async_hooks'

import type { ClientRateLimitInfo, Options, Store } from 'express-rate-limit'

import type { Decision, Receipt } from './decision.js'
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

/** What a request took. */
interface Taken {
  key: string
  /** `null` if it took nothing. */
  receipt: Receipt | null
}

/**
 * Makes express-rate-limit exact: the window slides.
 *
 * A request is one atomic call. Denied requests are not recorded, so a client that keeps sending is allowed again as
 * soon as its oldest request expires. If the limit is a function, the store does not know it, and denied requests are
 * recorded like those of other stores. While Redis fails, `failureMode` decides.
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
  private windowMs = 0
  /** What the request of an asynchronous context took, because `decrement` gets its key only. */
  private taken: AsyncLocalStorage<Taken> | undefined

  constructor(private readonly options: StoreOptions = {}) {
    this.localKeys = options.redis === undefined
    this.prefix = options.prefix ?? ''
    if (this.localKeys) this.resetAll = () => this.create()
  }

  /** Takes the window and the limit. express-rate-limit calls it. */
  init(options: Options): void {
    const { windowMs, limit, skipFailedRequests, skipSuccessfulRequests } = options
    this.limit = typeof limit === 'number' ? limit : LIMIT_MAX
    this.windowMs = windowMs
    this.taken = skipFailedRequests || skipSuccessfulRequests ? new AsyncLocalStorage() : undefined
    this.create()
  }

  /** Counts a request. */
  async increment(key: string): Promise<ClientRateLimitInfo> {
    const taken: Taken = { key, receipt: null }
    // Before the first `await`, this is the context of the caller, who decrements in it later.
    this.taken?.enterWith(taken)
    const decision = await this.ready().check(this.prefix + key)
    taken.receipt = decision.receipt
    const totalHits = decision.allowed ? Math.max(1, this.hits(decision)) : this.limit + 1
    return { totalHits, resetTime: this.resetTime(decision) }
  }

  /** Returns the count of a key without counting a request. */
  async get(key: string): Promise<ClientRateLimitInfo | undefined> {
    const decision = await this.ready().peek(this.prefix + key)
    const totalHits = this.hits(decision)
    return totalHits === 0 ? undefined : { totalHits, resetTime: this.resetTime(decision) }
  }

  /**
   * Takes a request back: the one that `increment` counted in this asynchronous context. Without one, it is the oldest of
   * the key. While Redis fails, the request stays counted.
   */
  async decrement(key: string): Promise<void> {
    const limiter = this.ready()
    const taken = this.taken?.getStore()
    try {
      if (taken?.key !== key) {
        await limiter.forgive(this.prefix + key, 1)
      } else if (taken.receipt !== null) {
        const { receipt } = taken
        taken.receipt = null
        await limiter.refund(receipt)
      }
    } catch (error) {
      // A listener of the response may not handle it, which would end the process.
      if (!(error instanceof SlidegateError && error.code === 'store')) throw error
    }
  }

  /** Removes a key. */
  async resetKey(key: string): Promise<void> {
    await this.ready().reset(this.prefix + key)
  }

  /**
   * Returns the units that count, as express-rate-limit compares them with its own limit: that of a decision is lower with
   * a guard band, and while each process enforces a share.
   */
  private hits({ limit, remaining }: Decision): number {
    return limit === 0 ? 0 : Math.min(this.limit, Math.ceil(((limit - remaining) * this.limit) / limit))
  }

  private resetTime({ retryAfterMs, resetAfterMs }: Decision): Date {
    return new Date(Date.now() + ((retryAfterMs ?? this.windowMs) || resetAfterMs))
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

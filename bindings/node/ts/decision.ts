/** Decisions and receipts. */

import { native } from './native.js'

const DEGRADED = native.degradedReasons()

/** The marks of a decision, as in `src/decision.rs`. */
const ALLOWED = 1
const SHADOW_DENIED = 2
const BLOCKED = 4
const ESTIMATED = 8
const RECEIPT = 16
const DEGRADED_SHIFT = 8

/** The numbers of a decision before those of its quotas, and the numbers of a quota. */
const HEAD = 9
const QUOTA = 4

/** The length of an array for every decision: a policy has at most eight quotas. */
export const NUMBERS = HEAD + QUOTA * 8

/** The decision of one quota. */
export interface QuotaDecision {
  limit: number
  /** Units left. */
  remaining: number
  /** Milliseconds until the cost passes, or `null` for never. */
  retryAfterMs: number | null
  /** Milliseconds until more units become available. */
  resetAfterMs: number
}

/**
 * What an allowed check took. Refund or settle it once.
 *
 * It can be stored as JSON and used by another process. A copy is not recognized as used.
 */
export interface Receipt {
  readonly key: string
  /** The tier of the request. */
  readonly tier?: string | undefined
  readonly units: number
  readonly tick: number
  readonly epoch: number
}

/** The result of a check. */
export class Decision {
  /** Whether the request is allowed. */
  readonly allowed: boolean
  /** The limit of the tightest quota. */
  readonly limit: number
  /** Units left in the tightest quota. */
  readonly remaining: number
  /** Milliseconds until the cost passes every quota: 0 if it does, `null` for never. */
  readonly retryAfterMs: number | null
  /** Milliseconds until more units become available in the tightest quota. */
  readonly resetAfterMs: number

  private readonly marks: number
  private readonly key: string
  private readonly tier: string | undefined
  private readonly units: number
  private readonly tick: number
  private readonly epoch: number
  private readonly several: Float64Array | undefined
  private taken: Receipt | null | undefined

  /** @internal */
  constructor(numbers: Float64Array, key: string, tier: string | undefined) {
    const marks = numbers[0] as number
    const retryAfter = numbers[3] as number
    this.allowed = (marks & ALLOWED) !== 0
    this.limit = numbers[1] as number
    this.remaining = numbers[2] as number
    this.retryAfterMs = retryAfter < 0 ? null : retryAfter
    this.resetAfterMs = numbers[4] as number
    this.marks = marks
    this.key = key
    this.tier = tier
    this.units = numbers[5] as number
    this.tick = numbers[6] as number
    this.epoch = numbers[7] as number
    const count = numbers[8] as number
    this.several = count > 1 ? numbers.slice(HEAD, HEAD + count * QUOTA) : undefined
    this.taken = undefined
  }

  /** Whether the request is allowed only because the policy is not enforced for the key. */
  get shadowDenied(): boolean {
    return (this.marks & SHADOW_DENIED) !== 0
  }

  /** Whether the key is blocked. */
  get blocked(): boolean {
    return (this.marks & BLOCKED) !== 0
  }

  /** Whether the table was full, so that usage is over-counted. */
  get estimated(): boolean {
    return (this.marks & ESTIMATED) !== 0
  }

  /** Why the store did not decide, such as `unreachable`, or `null` if it did. */
  get degraded(): string | null {
    const reason = this.marks >>> DEGRADED_SHIFT
    return reason === 0 ? null : (DEGRADED[reason - 1] ?? 'other')
  }

  /** Every quota, in the order of the policy. */
  get quotas(): QuotaDecision[] {
    const { limit, remaining, retryAfterMs, resetAfterMs, several } = this
    if (several === undefined) return [{ limit, remaining, retryAfterMs, resetAfterMs }]
    const quotas: QuotaDecision[] = []
    for (let at = 0; at < several.length; at += QUOTA) {
      const [limit, remaining, retryAfter, resetAfterMs] = several.subarray(at, at + QUOTA) as unknown as number[]
      quotas.push({
        limit: limit as number,
        remaining: remaining as number,
        retryAfterMs: (retryAfter as number) < 0 ? null : (retryAfter as number),
        resetAfterMs: resetAfterMs as number,
      })
    }
    return quotas
  }

  /** What the check took, or `null` if it took nothing. */
  get receipt(): Receipt | null {
    if (this.taken === undefined) {
      const { key, tier, units, tick, epoch } = this
      this.taken = (this.marks & RECEIPT) === 0 ? null : { key, tier, units, tick, epoch }
    }
    return this.taken
  }

  /** Returns the public properties, for `JSON.stringify` and logs. */
  toJSON(): object {
    const { allowed, limit, remaining, retryAfterMs, resetAfterMs, quotas } = this
    const { shadowDenied, blocked, estimated, degraded } = this
    return { allowed, limit, remaining, retryAfterMs, resetAfterMs, shadowDenied, blocked, estimated, degraded, quotas }
  }

  [Symbol.for('nodejs.util.inspect.custom')](): object {
    return this.toJSON()
  }
}

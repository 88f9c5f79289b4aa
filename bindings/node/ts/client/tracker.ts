/** The quota of a server, as a client sees it. */

import type { AdvertisedQuota } from './fields.js'
import type { Settings } from './settings.js'

/** Requests are spread over this number of parts of a window after an unexpected refusal. */
const PARTS = 10
/** The number of windows for which they are spread. */
const SPREAD_WINDOWS = 20
/** The time to wait for the response to a probe before the next one. */
const PROBE_PATIENCE_MS = 1000
/** A quota that is not advertised for this time is removed, unless two windows are longer. */
const FORGET_AFTER_MS = 600_000
/** The maximum number of own requests that are stored. Larger limits are paced by `remaining` only. */
const SENT_MAX = 8192

/** What a request took of a quota. */
export interface Taken {
  tracker: QuotaTracker
  /** The number of requests before it. */
  total: number
  /** When the request was sent. */
  at: number
  isProbe: boolean
}

/** Whether a request can be sent: `free`, `probe`, or the time to check again. */
export type Room = 'free' | 'probe' | number

export class QuotaTracker {
  readonly name: string | undefined
  updatedAt = 0
  private limit: number | undefined
  private windowMs: number | undefined
  /** When own requests were sent, oldest first. */
  private sent: number[] = []
  private total = 0
  private status: { left: number; foreign: number; resetAt: number; receivedAt: number; total: number } | undefined
  private probeAt: number | undefined
  private spreadUntil = 0

  constructor(quota: AdvertisedQuota) {
    this.name = quota.name
  }

  /** Returns `true` if this tracker is for an advertised quota. Quotas without names differ by their windows. */
  tracks({ name, windowMs }: AdvertisedQuota): boolean {
    return this.name === name && (name !== undefined || this.windowMs === windowMs)
  }

  /** Learns from a response. `inFlight` includes its request. */
  learn(
    quota: AdvertisedQuota,
    taken: Taken | undefined,
    inFlight: number,
    isOver: boolean,
    now: number,
    settings: Settings,
  ): void {
    this.updatedAt = now
    this.limit = quota.limit ?? this.limit
    this.windowMs = quota.windowMs ?? this.windowMs
    if (taken === undefined && this.status === undefined) {
      // All requests in flight count, although they were sent before the quota was known.
      this.total = inFlight
      this.sent = Array(Math.min(inFlight, SENT_MAX)).fill(now)
    }
    const isFresh = taken === undefined || this.status === undefined || this.status.total <= taken.total
    if (quota.remaining !== undefined && isFresh) {
      const used = this.limit === undefined ? 0 : Math.max(0, this.limit - quota.remaining)
      this.expire(now)
      this.status = {
        // Other requests in flight may not be counted yet.
        left: Math.max(0, quota.remaining - (inFlight - 1)),
        foreign: Math.max(0, used - this.sent.length),
        resetAt: now + Math.min(quota.resetAfterMs ?? 0, settings.holdMaxMs),
        receivedAt: now,
        total: taken?.total ?? this.total,
      }
    }
    if (isOver && taken !== undefined && !taken.isProbe && this.windowMs !== undefined) {
      this.spreadUntil = now + this.windowMs * SPREAD_WINDOWS
    }
    if (taken?.isProbe) this.probeAt = undefined
  }

  /** Returns whether the last of `units` could be sent now. */
  room(units: number, now: number, marginMs: number, settings: Settings): Room {
    const { status } = this
    if (this.limit === undefined || this.windowMs === undefined || this.limit > SENT_MAX) {
      return status === undefined || units <= status.left ? 'free' : this.probing(units, status.resetAt, now)
    }
    this.expire(now)
    const window = this.windowMs + Math.min(marginMs, this.windowMs / 20)
    const reserve = Math.floor((this.limit * settings.reservePercent) / 100)
    const limit = Math.max(1, this.limit - reserve)
    const spread = this.roomInPart(limit, window, now)
    if (spread > now) return spread
    const afterOwn = this.timeFor(units, limit, window, now)
    const foreign = status !== undefined && now < status.receivedAt + window ? status.foreign : 0
    if (status === undefined || foreign === 0) return afterOwn <= now ? 'free' : afterOwn
    // The units of other clients expire at the latest one window after the response.
    const gone = status.receivedAt + window
    const afterAll = Math.max(afterOwn, Math.min(gone, this.timeFor(units + foreign, limit, window, now)))
    if (afterAll <= now && units <= status.left) return 'free'
    if (afterAll > now && status.resetAt >= afterAll) return afterAll
    // According to the server, more units are available before that.
    const room = this.probing(units, Math.max(status.resetAt, afterOwn), now)
    return typeof room === 'number' ? Math.min(room, afterAll > now ? afterAll : gone) : room
  }

  /** Takes one unit. */
  take(isProbe: boolean, now: number): Taken {
    this.total += 1
    if (this.status !== undefined) this.status.left = Math.max(0, this.status.left - 1)
    if (isProbe) this.probeAt = now
    this.sent.push(now)
    if (this.sent.length > SENT_MAX) this.sent.shift()
    return { tracker: this, total: this.total, at: now, isProbe }
  }

  /** Returns the unit of a request that did not count under this quota. */
  giveBack(taken: Taken): void {
    const place = this.sent.lastIndexOf(taken.at)
    if (place >= 0) this.sent.splice(place, 1)
    this.giveUp(taken)
  }

  /** Ends a request without a response. */
  giveUp(taken: Taken): void {
    if (taken.isProbe) this.probeAt = undefined
  }

  isStale(now: number): boolean {
    const forgotten = this.updatedAt + Math.max(2 * (this.windowMs ?? 0), FORGET_AFTER_MS)
    return now > Math.max(forgotten, this.status?.resetAt ?? 0)
  }

  /** Returns the time at which `units` more fit with the own requests, in a window of that length. */
  private timeFor(units: number, limit: number, window: number, now: number): number {
    const first = this.sent.length + units - limit
    if (first <= 0) return now
    const windows = Math.floor((first - 1) / limit)
    const oldest = this.sent[(first - 1) % limit] ?? now
    return oldest + window * (windows + 1)
  }

  /** Returns the time at which a part of the window has units, while requests are spread. */
  private roomInPart(limit: number, window: number, now: number): number {
    if (now >= this.spreadUntil) return now
    const parts = Math.min(PARTS, limit)
    const share = Math.ceil(limit / parts)
    const before = this.sent[this.sent.length - share]
    return before === undefined ? now : before + window / parts
  }

  private probing(units: number, time: number, now: number): Room {
    if (now < time) return time
    if (this.probeAt !== undefined && now < this.probeAt + PROBE_PATIENCE_MS) return this.probeAt + PROBE_PATIENCE_MS
    return units <= 1 ? 'probe' : now + PROBE_PATIENCE_MS
  }

  private expire(now: number): void {
    // A twentieth is the longest margin.
    const gone = now - (this.windowMs ?? 0) * 1.05
    let count = 0
    while (count < this.sent.length && (this.sent[count] as number) <= gone) count += 1
    if (count > 0) this.sent.splice(0, count)
  }
}

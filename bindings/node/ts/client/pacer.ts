/** Paces the requests to servers: queues, holds, retries. */

import { readLimits, waitOf, type AdvertisedLimits, type Fields } from './fields.js'
import { PacingError, settingsOf, type Settings } from './settings.js'
import { QuotaTracker, type Taken } from './tracker.js'

/** Whether a request can be sent again: always, only if it was certainly not handled, or never. */
export type Repeat = 'always' | 'refused' | 'never'

/** The parts of the environment that a test replaces. */
export interface Environment {
  /** Milliseconds of a clock that never goes back. */
  now(): number
  /** Milliseconds since the epoch. */
  time(): number
  /** A random number of 0 to 1. */
  random(): number
  /** Calls a function after a time. Returns a function that cancels it. */
  after(millis: number, call: () => void): () => void
}

const REAL: Environment = {
  now: () => performance.now(),
  time: () => Date.now(),
  random: () => Math.random(),
  after: (millis, call) => {
    const timer = setTimeout(call, Math.min(millis, 2 ** 31 - 1))
    return () => clearTimeout(timer)
  },
}

/** The counters of a pacer. */
export interface PacerStats {
  /** Requests that were sent, retries included. */
  sent: number
  /** Retries. */
  retries: number
  /** Responses with 429. */
  refusals: number
  /** Requests that were not sent because of a `PacingError`. */
  notSent: number
  /** Requests that wait now. */
  waiting: number
}

/** One request through all of its attempts. */
export class Ticket {
  attempts = 0
  notBefore = 0
  heldUntil = 0
  sentAt: number | undefined
  taken: Taken[] = []
  isFirst = false

  constructor(
    readonly scope: string,
    readonly deadline: number,
  ) {}
}

/** A request that waits in the queue of its scope. */
interface Waiter {
  ticket: Ticket
  send: () => void
  fail: (error: unknown) => void
}

/** The state of one scope, usually a host. */
class ScopeState {
  usedAt = 0
  holdUntil = 0
  holdSpread = 0
  stoppedUntil = 0
  refusals: number[] = []
  /** When the first request was sent, until there is a response. */
  firstAt: number | undefined
  hasReplied = false
  trackers: QuotaTracker[] = []
  inFlight = 0
  queue: Waiter[] = []
  cancelTimer: (() => void) | undefined
  /** In hundredths of a retry. */
  budget: number
  /** The time up to which the minimum per minute has been added. */
  budgetAt: number
  tripLongest = 0
  tripShortest = Number.POSITIVE_INFINITY

  constructor(settings: Settings, now: number) {
    this.budget = settings.budgetFloor * RETRY
    this.budgetAt = now
  }
}

const TRACKERS_MAX = 8
/** The hundredths of one retry. */
const RETRY = 100
/** The maximum number of retries saved from requests, above the floor. */
const SAVED_MAX = 100

/** Paces all requests that share it. Requests of one scope share what one of them learns. */
export class Pacer {
  private readonly settings: Settings
  private readonly environment: Environment
  private readonly scopes = new Map<string, ScopeState>()
  private readonly counters: PacerStats = { sent: 0, retries: 0, refusals: 0, notSent: 0, waiting: 0 }

  constructor(settings: Partial<Settings> = {}, environment: Partial<Environment> = {}) {
    this.settings = settingsOf(settings)
    this.environment = { ...REAL, ...environment }
  }

  /** Returns the counters. */
  stats(): PacerStats {
    return { ...this.counters }
  }

  /** Starts a request of a scope, such as a host. */
  ticket(scope: string): Ticket {
    return new Ticket(scope, this.environment.now() + this.settings.deadlineMs)
  }

  /** Waits until a request may be sent. Rejects with a `PacingError`, or the signal's reason. */
  async acquire(ticket: Ticket, signal?: AbortSignal | null): Promise<void> {
    signal?.throwIfAborted()
    let state
    try {
      state = this.state(ticket.scope)
    } catch (error) {
      this.counters.notSent += 1
      throw error
    }
    const { promise, resolve, reject } = withResolvers()
    const waiter: Waiter = { ticket, send: resolve, fail: reject }
    const abort = () => {
      state.queue = state.queue.filter((other) => other !== waiter)
      reject(signal?.reason)
      this.pump(state)
    }
    signal?.addEventListener('abort', abort, { once: true })
    state.queue.push(waiter)
    this.pump(state)
    if (state.queue.includes(waiter) && this.waiting() > this.settings.waitersMax) {
      state.queue = state.queue.filter((other) => other !== waiter)
      this.counters.notSent += 1
      reject(new PacingError('waiters', `${this.settings.waitersMax} requests wait already`))
    }
    try {
      await promise
    } finally {
      signal?.removeEventListener('abort', abort)
      this.counters.waiting = this.waiting()
    }
  }

  /** Learns from a response. Returns `true` if the request should be sent again: `acquire` it first. */
  respond(ticket: Ticket, status: number, fields: Fields, repeat: Repeat): boolean {
    const { environment, settings } = this
    const now = environment.now()
    const state = this.scopes.get(ticket.scope)
    if (state === undefined) return false
    const limits = readLimits(fields, environment.time())
    const isOver = status === 429
    const isRefused = isOver || status === 503
    this.learn(state, ticket, limits, isOver, now)
    let again = false
    if (isOver) this.note(state, now)
    if (isRefused) {
      this.backOff(state, ticket, limits, isOver, now)
      again =
        (repeat === 'always' || (repeat === 'refused' && isOver && settings.repeatRefused)) &&
        ticket.attempts < settings.attemptsMax &&
        ticket.notBefore <= ticket.deadline &&
        state.stoppedUntil <= now &&
        this.spend(state, now)
    }
    if (again) this.counters.retries += 1
    this.pump(state)
    return again
  }

  /** Ends a request that failed without a response. */
  fail(ticket: Ticket): void {
    const state = this.scopes.get(ticket.scope)
    if (state === undefined) return
    const wasFirst = ticket.isFirst
    for (const taken of this.returned(state, ticket)) taken.tracker.giveUp(taken)
    if (wasFirst && !state.hasReplied) state.firstAt = undefined
    this.pump(state)
  }

  private waiting(): number {
    let waiting = 0
    for (const state of this.scopes.values()) waiting += state.queue.length
    return waiting
  }

  private state(scope: string): ScopeState {
    const now = this.environment.now()
    let state = this.scopes.get(scope)
    if (state === undefined) {
      if (this.scopes.size >= this.settings.scopesMax) this.forgetOldest(now)
      state = new ScopeState(this.settings, now)
      this.scopes.set(scope, state)
    }
    state.usedAt = now
    return state
  }

  /** Removes the scope that was not used for the longest time, but none that is held or in use. */
  private forgetOldest(now: number): void {
    const forgettable = [...this.scopes].filter(([, state]) => {
      const held = Math.max(state.holdUntil + state.holdSpread, state.stoppedUntil)
      return held <= now && state.inFlight === 0 && state.queue.length === 0
    })
    const oldest = forgettable.sort(([, one], [, other]) => one.usedAt - other.usedAt)[0]
    if (oldest === undefined) throw new PacingError('scopes', `all ${this.scopes.size} scopes are in use`)
    this.scopes.delete(oldest[0])
  }

  /** Sends the requests of a queue that may be sent now, in order, and sets a timer for the next. */
  private pump(state: ScopeState): void {
    state.cancelTimer?.()
    state.cancelTimer = undefined
    const now = this.environment.now()
    let next = Number.POSITIVE_INFINITY
    let units = 1
    for (const waiter of state.queue.slice()) {
      const { ticket } = waiter
      const at = this.check(state, ticket, units, now)
      if (at instanceof PacingError || (typeof at === 'number' && at > ticket.deadline)) {
        state.queue.splice(state.queue.indexOf(waiter), 1)
        this.counters.notSent += 1
        const error = at instanceof PacingError ? at : this.late(at, ticket, now)
        waiter.fail(error)
      } else if (typeof at === 'number') {
        next = Math.min(next, at)
        units += 1
      } else {
        state.queue.splice(state.queue.indexOf(waiter), 1)
        this.send(state, ticket, at, now)
        waiter.send()
      }
    }
    this.counters.waiting = this.waiting()
    if (next !== Number.POSITIVE_INFINITY) {
      // Timers may fire up to a millisecond early.
      const millis = Math.max(1, Math.ceil(next - now))
      state.cancelTimer = this.environment.after(millis, () => this.pump(state))
    }
  }

  private late(at: number, ticket: Ticket, now: number): PacingError {
    const [wait, left] = [Math.ceil(at - now), Math.max(0, Math.floor(ticket.deadline - now))]
    return new PacingError('deadline', `the request would wait for ${wait} ms, and has ${left} ms left`, wait)
  }

  /** Returns the trackers that a request probes if it is sent now, or the time to check again. */
  private check(state: ScopeState, ticket: Ticket, units: number, now: number): QuotaTracker[] | number | PacingError {
    const { settings } = this
    if (state.stoppedUntil > now) {
      const message = `the server refused ${settings.refusalsMax} requests: it gets no request for a while`
      return new PacingError('stopped', message, state.stoppedUntil - now)
    }
    this.respectHold(state, ticket, now)
    if (ticket.notBefore > now) return ticket.notBefore
    if (state.firstAt !== undefined && state.firstAt + settings.learnFirstMs > now) {
      return state.firstAt + settings.learnFirstMs
    }
    state.trackers = state.trackers.filter((tracker) => !tracker.isStale(now))
    const probes: QuotaTracker[] = []
    let latest = now
    const margin = Math.max(0, state.tripLongest - state.tripShortest)
    for (const tracker of state.trackers) {
      const room = tracker.room(units, now, margin, settings)
      if (room === 'probe') probes.push(tracker)
      else if (room !== 'free') latest = Math.max(latest, room)
    }
    return latest > now ? latest : probes
  }

  private send(state: ScopeState, ticket: Ticket, probes: QuotaTracker[], now: number): void {
    if (ticket.attempts === 0) {
      this.fill(state, now)
      const most = (this.settings.budgetFloor + SAVED_MAX) * RETRY
      state.budget = Math.min(most, state.budget + this.settings.budgetPercent)
    }
    ticket.isFirst = !state.hasReplied && state.firstAt === undefined
    if (ticket.isFirst) state.firstAt = now
    ticket.taken = state.trackers.map((tracker) => tracker.take(probes.includes(tracker), now))
    ticket.sentAt = now
    ticket.attempts += 1
    state.inFlight += 1
    this.counters.sent += 1
  }

  private learn(state: ScopeState, ticket: Ticket, limits: AdvertisedLimits, isOver: boolean, now: number): void {
    state.hasReplied = true
    state.firstAt = undefined
    const inFlight = Math.max(1, state.inFlight)
    const { sentAt } = ticket
    const taken = this.returned(state, ticket)
    if (sentAt !== undefined) {
      // Each trip moves the bounds a little, so that an outlier loses its effect.
      state.tripLongest = Math.max(now - sentAt, state.tripLongest * (1 - 1 / 64))
      state.tripShortest = Math.min(now - sentAt, state.tripShortest * (1 + 1 / 64))
    }
    if (!this.settings.pacing) return
    const learned = new Set<QuotaTracker>()
    for (const quota of limits.quotas) {
      let tracker = state.trackers.find((tracker) => tracker.tracks(quota))
      if (tracker === undefined) {
        tracker = new QuotaTracker(quota)
        state.trackers.push(tracker)
        if (state.trackers.length > TRACKERS_MAX) {
          state.trackers.sort((one, other) => other.updatedAt - one.updatedAt).pop()
        }
      }
      learned.add(tracker)
      const own = taken.find((taken) => taken.tracker === tracker)
      tracker.learn(quota, own, inFlight, isOver, now, this.settings)
    }
    // A response that names quotas names all that count its request. Quotas without a name always count.
    const hasNames = limits.quotas.some(({ name }) => name !== undefined)
    for (const one of taken) {
      const { tracker } = one
      if (hasNames && tracker.name !== undefined && !learned.has(tracker)) tracker.giveBack(one)
      else tracker.giveUp(one)
    }
  }

  /** Counts a 429, and stops the scope if there are too many. */
  private note(state: ScopeState, now: number): void {
    const { refusalsMax, refusalsWindowMs } = this.settings
    this.counters.refusals += 1
    state.refusals.push(now)
    while ((state.refusals[0] ?? now) <= now - refusalsWindowMs) state.refusals.shift()
    if (state.refusals.length < refusalsMax) return
    state.refusals = []
    state.stoppedUntil = now + refusalsWindowMs
  }

  /** Holds the scope for as long as the server requested, or this request for some time. */
  private backOff(state: ScopeState, ticket: Ticket, limits: AdvertisedLimits, isOver: boolean, now: number): void {
    const { settings, environment } = this
    // The quotas of a 503 need not be the reason for it.
    const requested = isOver ? waitOf(limits) : (limits.retryAfterMs ?? 0)
    if (requested > 0) {
      const delay = Math.min(requested, settings.holdMaxMs)
      const spread = Math.min((delay * settings.jitterPercent) / 100, settings.jitterMaxMs)
      hold(state, now + delay, spread)
    } else {
      const most = Math.min(settings.backoffMaxMs, settings.backoffFirstMs * 2 ** (ticket.attempts - 1))
      ticket.notBefore = Math.max(ticket.notBefore, now + environment.random() * most)
      if (isOver) hold(state, ticket.notBefore, 0)
    }
    this.respectHold(state, ticket, now)
  }

  /** Draws jitter once for every hold that a request encounters. */
  private respectHold(state: ScopeState, ticket: Ticket, now: number): void {
    if (state.holdUntil <= Math.max(now, ticket.heldUntil)) return
    const at = state.holdUntil + this.environment.random() * state.holdSpread
    ticket.notBefore = Math.max(ticket.notBefore, at)
    ticket.heldUntil = state.holdUntil
  }

  private fill(state: ScopeState, now: number): void {
    const floor = this.settings.budgetFloor * RETRY
    const earned = Math.floor((floor * (now - state.budgetAt)) / 60_000)
    // A fraction of a hundredth stays in the time since `budgetAt`.
    if (earned < 1) return
    // Time fills only up to the floor. Savings above it stay.
    state.budget = Math.max(state.budget, Math.min(floor, state.budget + earned))
    state.budgetAt = now
  }

  private spend(state: ScopeState, now: number): boolean {
    this.fill(state, now)
    if (state.budget < RETRY) return false
    state.budget -= RETRY
    return true
  }

  private returned(state: ScopeState, ticket: Ticket): Taken[] {
    if (ticket.sentAt === undefined) return []
    const { taken } = ticket
    ticket.sentAt = undefined
    ticket.taken = []
    state.inFlight = Math.max(0, state.inFlight - 1)
    return taken
  }
}

function hold(state: ScopeState, until: number, spread: number): void {
  if (until <= state.holdUntil) return
  state.holdUntil = until
  state.holdSpread = spread
}

/** Returns whether a request may be sent again. */
export function repeatOf(method: string, hasIdempotencyKey: boolean, isRepeatable: boolean): Repeat {
  if (!isRepeatable) return 'never'
  const isIdempotent = /^(get|head|put|delete|options|trace)$/i.test(method)
  return isIdempotent || hasIdempotencyKey ? 'always' : 'refused'
}

function withResolvers() {
  let resolve = () => {}
  let reject = (_: unknown) => {}
  const promise = new Promise<void>((first, second) => {
    resolve = first
    reject = second
  })
  return { promise, resolve, reject }
}

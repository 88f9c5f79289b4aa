/** Limiters in memory and in Redis. */

import { Decision, NUMBERS, type Receipt } from './decision.js'
import { guarded, SlidegateError, translate } from './errors.js'
import { warning, type Logger } from './logger.js'
import { native, type NativeGate, type NowOrLater } from './native.js'
import type { MemoryLimiterOptions, RedisLimiterOptions } from './policy.js'
import { RedisStore } from './store.js'
import type { ManualClock } from './clock.js'

/** Options of a check. */
export interface CheckOptions {
  /** The number of units: 1 by default. */
  cost?: number
  /** The tier: by default, the quotas of the policy. */
  tier?: string | undefined
}

/** Options of a wait. */
export interface WaitOptions extends CheckOptions {
  /** The maximum time to wait, in milliseconds. A request that needs longer is denied at once. */
  timeoutMs: number
  /** Cancels the wait. A canceled wait takes no units. */
  signal?: AbortSignal
}

/** One admission of a key. */
export interface Admission {
  /** Milliseconds since the epoch. */
  atMs: number
  units: number
}

/** A limiter in memory or in Redis. */
export type AnyLimiter = Limiter | RedisLimiter

/** Has the numbers of a check. One is enough, because a decision copies them at once. */
const scratch = new Float64Array(NUMBERS)
const { checkNow } = native

/** What both limiters have in common. Results are values in memory, and promises in Redis. */
abstract class Base<Later extends boolean> {
  /** @internal */
  readonly gate: NativeGate
  /** The name of the policy. */
  readonly name: string
  /** The names of the tiers. */
  readonly tiers: readonly string[]
  /** Whether results, also errors, are promises. */
  private readonly isLater: boolean

  /** @internal */
  constructor(gate: NativeGate) {
    this.gate = gate
    this.name = gate.name
    this.tiers = Object.freeze(gate.tiers)
    this.isLater = !gate.isInProcess
  }

  /** Returns the quotas of a tier, or those of the policy. */
  quotas(tier?: string): { limit: number; windowMs: number }[] {
    const numbers = this.gate.quotas(this.tierNumber(tier))
    const quotas = []
    for (let at = 0; at < numbers.length; at += 2) {
      quotas.push({ limit: numbers[at] as number, windowMs: numbers[at + 1] as number })
    }
    return quotas
  }

  /** Evaluates a request without taking units. `remaining` is the current number. */
  peek(key: string, options?: CheckOptions): Result<Later, Decision> {
    return this.decide(key, options?.tier, (tier) => this.gate.peek(key, tier, options?.cost ?? 1))
  }

  /** Takes as many units as fit, at most `cost`. `receipt.units` is their number. */
  checkAtMost(key: string, cost: number): Result<Later, Decision> {
    return this.decide(key, undefined, () => this.gate.checkAtMost(key, cost))
  }

  /** Refunds the units of a receipt. Returns the number that was still counted. */
  refund(receipt: Receipt): Result<Later, number> {
    return this.run(receipt?.key, () => this.gate.refund(receipt.key, this.tierNumber(receipt.tier), useOnce(receipt)))
  }

  /** Corrects a reservation to its actual cost. Returns the total number of units charged. */
  settle(receipt: Receipt, actual: number): Result<Later, number> {
    return this.run(receipt?.key, () => this.gate.settle(receipt.key, this.tierNumber(receipt.tier), useOnce(receipt), actual))
  }

  /** Records units without a check, above the limit if necessary. Returns their number. */
  charge(key: string, units: number, tier?: string): Result<Later, number> {
    return this.run(key, () => this.gate.charge(key, this.tierNumber(tier), units))
  }

  /** Refunds up to `units` without a receipt, oldest first. Returns their number. */
  forgive(key: string, units: number, tier?: string): Result<Later, number> {
    return this.run(key, () => this.gate.forgive(key, this.tierNumber(tier), units))
  }

  /** Returns the units that count against each quota now. */
  usage(key: string, tier?: string): Result<Later, number[]> {
    const numbers = this.run(key, () => this.gate.usage(key, this.tierNumber(tier)))
    return then(numbers, (numbers) => Array.from(numbers)) as Result<Later, number[]>
  }

  /** Returns the admissions that count, oldest first. Only the log algorithms store them. */
  history(key: string, tier?: string): Result<Later, Admission[]> {
    const numbers = this.run(key, () => this.gate.history(key, this.tierNumber(tier)))
    return then(numbers, admissions) as Result<Later, Admission[]>
  }

  /** Removes a key and ends its block. Returns `true` if it existed. */
  reset(key: string): Result<Later, boolean> {
    return this.run(key, () => this.gate.reset(key))
  }

  /** Denies every check of a key for a time in milliseconds. */
  block(key: string, millis: number): Result<Later, void> {
    return then(this.run(key, () => this.gate.block(key, millis)), () => {}) as Result<Later, void>
  }

  /** Ends the block of a key. Returns `true` if there was one. */
  unblock(key: string): Result<Later, boolean> {
    return this.run(key, () => this.gate.unblock(key))
  }

  /**
   * Takes units as soon as they are available, first come, first served. The result is a denial if
   * that takes longer than `timeoutMs`. Rejects with the signal's reason if it is aborted.
   */
  async wait(key: string, options: WaitOptions): Promise<Decision> {
    const [decision] = await waitAll([{ limiter: this as unknown as AnyLimiter, key, ...options }], options)
    return decision as Decision
  }

  /** @internal Returns the number of a tier, -1 for none. */
  tierNumber(tier: string | undefined): number {
    if (tier === undefined) return -1
    const number = this.tiers.indexOf(tier)
    if (number >= 0) return number
    throw new SlidegateError('setting', `policy ${JSON.stringify(this.name)} has no tier ${JSON.stringify(tier)}`)
  }

  private decide(
    key: string,
    name: string | undefined,
    call: (tier: number) => NowOrLater<Float64Array>,
  ): Result<Later, Decision> {
    return this.run(key, () => {
      const tier = this.tierNumber(name)
      return then(call(tier), (numbers) => new Decision(numbers, key, name))
    })
  }

  private run<T>(key: string, call: () => NowOrLater<T>): Result<Later, T> {
    const checked = () => {
      checkKey(key)
      return call()
    }
    return nowOrLater(this.isLater, checked) as Result<Later, T>
  }
}

type Result<Later extends boolean, T> = Later extends true ? Promise<T> : T

/** A limiter whose state is in this process. Every call returns its result at once. */
export class Limiter extends Base<false> {
  private readonly number: number

  constructor(options: MemoryLimiterOptions)
  /** @internal */
  constructor(gate: NativeGate)
  constructor(from: MemoryLimiterOptions | NativeGate) {
    super(isGate(from) ? from : inMemory(from))
    this.number = this.gate.number
  }

  /** Checks a request, and takes its units if it is allowed. */
  check(key: string, options?: CheckOptions): Decision {
    let tier = -1
    let cost = 1
    if (options !== undefined) {
      if (options.tier !== undefined) tier = this.tierNumber(options.tier)
      if (options.cost !== undefined) cost = options.cost
    }
    scratch[0] = this.number
    scratch[1] = tier
    scratch[2] = cost
    try {
      checkNow(key, scratch)
    } catch (error) {
      checkKey(key)
      throw translate(error)
    }
    return new Decision(scratch, key, options?.tier)
  }

  /** Takes an estimate, which `settle` corrects later. */
  reserve(key: string, estimate: number, tier?: string): Decision {
    return this.check(key, { cost: estimate, tier })
  }
}

/** A limiter whose state is in Redis. Every call returns a promise, and none blocks the event loop. */
export class RedisLimiter extends Base<true> {
  constructor(options: RedisLimiterOptions)
  /** @internal */
  constructor(gate: NativeGate)
  constructor(from: RedisLimiterOptions | NativeGate) {
    super(isGate(from) ? from : inRedis(from))
  }

  /** Checks a request, and takes its units if it is allowed. */
  async check(key: string, options?: CheckOptions): Promise<Decision> {
    checkKey(key)
    const tier = this.tierNumber(options?.tier)
    try {
      return new Decision(await this.gate.checkLater(key, tier, options?.cost ?? 1), key, options?.tier)
    } catch (error) {
      throw translate(error)
    }
  }

  /** Takes an estimate, which `settle` corrects later. */
  reserve(key: string, estimate: number, tier?: string): Promise<Decision> {
    return this.check(key, { cost: estimate, tier })
  }

  /** Returns problems that an operator should fix, such as a server that evicts keys. */
  warnings(): Promise<string[]> {
    return this.gate.warnings().catch(rethrow)
  }
}

/** One of several checks that are decided together. */
export interface Ask<L extends AnyLimiter = AnyLimiter> extends CheckOptions {
  limiter: L
  key: string
}

/**
 * Checks several limiters, all or nothing: either all allow the request and take its units, or no
 * units are taken. Returns one decision per check.
 */
export function checkAll(asks: Ask<Limiter>[]): Decision[]
export function checkAll(asks: Ask[]): Decision[] | Promise<Decision[]>
export function checkAll(asks: Ask[]): Decision[] | Promise<Decision[]> {
  return nowOrLater(asks.some(({ limiter }) => limiter instanceof RedisLimiter), () => {
    const { gates, keys, tiers, costs, names } = columns(asks)
    return then(native.checkSeveral(gates, keys, tiers, costs), (all) => decisions(all, keys, names))
  })
}

/** Waits for the units of several limiters, and takes from all or from none. */
export async function waitAll(
  asks: Ask[],
  options: { timeoutMs: number; signal?: AbortSignal },
): Promise<Decision[]> {
  const { timeoutMs, signal } = options
  signal?.throwIfAborted()
  const { gates, keys, tiers, costs, names } = columns(asks)
  const token = new native.NativeCancel()
  const cancel = () => token.cancel()
  signal?.addEventListener('abort', cancel, { once: true })
  try {
    const all = await native.waitSeveral(gates, keys, tiers, costs, timeoutMs, token)
    if (all === null) throw signal?.reason
    return decisions(all, keys, names)
  } catch (error) {
    throw signal?.aborted === true && error === signal.reason ? error : translate(error)
  } finally {
    signal?.removeEventListener('abort', cancel)
  }
}

/**
 * Creates the limiters of a configuration file of the daemon, by the names of its policies. Its
 * listeners and rules are ignored. `logger` is that of `RedisOptions`.
 */
export function limitersFromYaml(
  yaml: string,
  options?: { clock?: ManualClock; logger?: Logger },
): Record<string, AnyLimiter> {
  const warn = warning(options?.logger)
  const gates = guarded(() => native.gatesOfYaml(yaml, warn, options?.clock?.native))
  const made = gates.map((gate) => [gate.name, gate.isInProcess ? new Limiter(gate) : new RedisLimiter(gate)])
  return Object.fromEntries(made)
}

/** Returns the metrics of all limiters of this process in the format of Prometheus. */
export function metrics(): string {
  return native.metrics()
}

/** @internal The arguments of a native function for several checks, and the names of their tiers. */
export interface Columns {
  gates: NativeGate[]
  keys: string[]
  tiers: number[]
  costs: number[]
  names: (string | undefined)[]
}

function columns(asks: Ask[]): Columns {
  for (const ask of asks) checkKey(ask.key)
  return {
    gates: asks.map((ask) => ask.limiter.gate),
    keys: asks.map((ask) => ask.key),
    tiers: asks.map((ask) => ask.limiter.tierNumber(ask.tier)),
    costs: asks.map((ask) => ask.cost ?? 1),
    names: asks.map((ask) => ask.tier),
  }
}

/** @internal */
export function decisions(all: Float64Array[], keys: string[], names: (string | undefined)[]): Decision[] {
  return all.map((numbers, place) => new Decision(numbers, keys[place] as string, names[place]))
}

/** @internal Applies a function to a value, or to that of a promise. */
export function then<T, U>(value: NowOrLater<T>, apply: (value: T) => U): NowOrLater<U> {
  return value instanceof Promise ? value.then(apply) : apply(value)
}

/** Calls a native function, and translates its error. If the result is a promise, so is an error. */
function nowOrLater<T>(isLater: boolean, call: () => NowOrLater<T>): NowOrLater<T> {
  if (!isLater) return guarded(call)
  return new Promise<T>((resolve) => resolve(call())).catch(rethrow)
}

/** Receipts that were refunded or settled. */
const used = new WeakSet<Receipt>()

/** @internal Marks a receipt as used. Returns `false` if it was before. */
export function use(receipt: Receipt): boolean {
  if (used.has(receipt)) return false
  used.add(receipt)
  return true
}

/** Marks a receipt as used, because the units of another request would be refunded. */
function useOnce(receipt: Receipt): Receipt {
  if (use(receipt)) return receipt
  throw new SlidegateError('setting', 'the receipt was already refunded or settled')
}

function admissions(numbers: Float64Array): Admission[] {
  const list: Admission[] = []
  for (let at = 0; at < numbers.length; at += 2) {
    list.push({ atMs: numbers[at] as number, units: numbers[at + 1] as number })
  }
  return list
}

function inMemory({ memory, clock, ...policy }: MemoryLimiterOptions): NativeGate {
  const texts = [JSON.stringify({ name: 'default', ...policy }), JSON.stringify(memory ?? {})] as const
  return guarded(() => native.NativeGate.inMemory(...texts, clock?.native))
}

function inRedis({ redis, ...policy }: RedisLimiterOptions): NativeGate {
  if (policy.name === undefined) {
    const message = 'a policy in Redis needs a name, which identifies its state: set name'
    throw new SlidegateError('setting', message)
  }
  const store = redis instanceof RedisStore ? redis : new RedisStore(redis)
  return guarded(() => native.NativeGate.inRedis(JSON.stringify(policy), store.native))
}

function isGate(from: object): from is NativeGate {
  return 'checkLater' in from
}

function checkKey(key: unknown): void {
  if (typeof key !== 'string') {
    throw new SlidegateError('setting', `a key is a string, not ${key === null ? 'null' : typeof key}`)
  }
}

function rethrow(error: unknown): never {
  throw translate(error)
}

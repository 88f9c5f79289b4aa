/** Loads the native module of this platform. Its functions are documented in `src/*.rs`. */

import { platformName } from './platform.js'

export interface NativeClock {
  set(millis: number): void
  advance(millis: number): void
  now(): number
}

export interface NativeReceipt {
  units: number
  tick: number
  epoch: number
}

/** A value if the store is in memory, otherwise a promise. */
export type NowOrLater<T> = T | Promise<T>

export interface NativeGate {
  readonly name: string
  readonly tiers: string[]
  readonly isInProcess: boolean
  /** The number of the gate for `checkNow`, as long as this object exists. */
  readonly number: number
  quotas(tier: number): number[]
  /** Whether a request without a key is denied, which is counted: not if the policy is not enforced for all keys. */
  denyWithoutKey(): boolean
  checkLater(key: string, tier: number, cost: number): Promise<Float64Array>
  peek(key: string, tier: number, cost: number): NowOrLater<Float64Array>
  checkAtMost(key: string, cost: number): NowOrLater<Float64Array>
  refund(key: string, tier: number, receipt: NativeReceipt): NowOrLater<number>
  settle(key: string, tier: number, receipt: NativeReceipt, actual: number): NowOrLater<number>
  charge(key: string, tier: number, units: number): NowOrLater<number>
  forgive(key: string, tier: number, units: number): NowOrLater<number>
  usage(key: string, tier: number): NowOrLater<Float64Array>
  history(key: string, tier: number): NowOrLater<Float64Array>
  reset(key: string): NowOrLater<boolean>
  block(key: string, millis: number): NowOrLater<boolean>
  unblock(key: string): NowOrLater<boolean>
  warnings(): Promise<string[]>
}

export interface NativeAnswer {
  decisions: Float64Array[]
  headers: string[]
  status?: number
  contentType?: string
  body?: string
  taken?: NativeTaken
}

/** The units of an allowed request. */
export interface NativeTaken {
  uncount(isUsed: boolean[]): Promise<void> | null
}

export interface NativeHttp {
  check(
    gates: NativeGate[],
    keys: string[],
    tiers: number[],
    costs: number[],
    traceId?: string,
  ): NowOrLater<NativeAnswer>
}

export interface NativeAddress {
  key(address: string): string
  clientKey(peer: string, fields: string[]): string
}

export interface NativeKeyHeader {
  /** Returns the value, which is empty if the field is missing, or `null` if the request has to be denied. */
  value(lines: string[]): string | null
}

export interface NativeCancel {
  cancel(): void
}

export interface NativeStore {
  readonly isStore?: true
}

interface Native {
  NativeClock: new (millis: number) => NativeClock
  NativeStore: new (options: string, warn: (message: string) => void) => NativeStore
  NativeCancel: new () => NativeCancel
  NativeHttp: new (options: string, mayRefund: boolean) => NativeHttp
  NativeAddress: new (options: string) => NativeAddress
  NativeKeyHeader: new (name: string, duplicates: string) => NativeKeyHeader
  NativeGate: {
    inMemory(policy: string, memory: string, clock?: NativeClock): NativeGate
    inRedis(policy: string, store: NativeStore): NativeGate
  }
  /** The array has the number of the gate, of the tier, and the cost. It receives the decision. */
  checkNow(key: string, numbers: Float64Array): void
  gatesOfYaml(yaml: string, warn: (message: string) => void, clock?: NativeClock): NativeGate[]
  metrics(): string
  degradedReasons(): string[]
  checkSeveral(
    gates: NativeGate[],
    keys: string[],
    tiers: number[],
    costs: number[],
  ): NowOrLater<Float64Array[]>
  waitSeveral(
    gates: NativeGate[],
    keys: string[],
    tiers: number[],
    costs: number[],
    timeoutMs: number,
    cancel: NativeCancel,
  ): Promise<Float64Array[] | null>
}

function load(): Native {
  const name = platformName()
  const failures: unknown[] = []
  // A build of this checkout, then the optional package of the platform.
  for (const path of [`../slidegate.${name}.node`, `slidegate-${name}`]) {
    try {
      return require(path) as Native
    } catch (error) {
      failures.push(error)
    }
  }
  throw new Error(
    `slidegate has no native module for ${name}: install it again without --omit=optional, or build it from source`,
    { cause: failures },
  )
}

export const native = load()

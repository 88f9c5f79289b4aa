/** A clock for tests. */

import { native, type NativeClock } from './native.js'

/**
 * A clock that a test sets.
 *
 * ```js
 * const clock = new ManualClock()
 * const limiter = new Limiter({ quotas: '1/minute', clock })
 * limiter.check('alice').allowed // true
 * clock.advance(59_999)
 * limiter.check('alice').allowed // false
 * clock.advance(1)
 * limiter.check('alice').allowed // true
 * ```
 */
export class ManualClock {
  /** @internal */
  readonly native: NativeClock

  /** Creates a clock at a time in milliseconds since the epoch. */
  constructor(millis = 1_700_000_000_000) {
    this.native = new native.NativeClock(millis)
  }

  /** Sets the time in milliseconds since the epoch, which may be earlier than before. */
  set(millis: number): void {
    this.native.set(millis)
  }

  /** Advances the clock by milliseconds. */
  advance(millis: number): void {
    this.native.advance(millis)
  }

  /** Returns the milliseconds since the epoch. */
  now(): number {
    return this.native.now()
  }
}

/** A connection to Redis that several limiters share. */

import { guarded } from './errors.js'
import { warning } from './logger.js'
import { native, type NativeStore } from './native.js'
import type { RedisOptions } from './policy.js'

/**
 * Redis or Valkey as a store. Limiters of one store share its connection, and `checkAll` decides
 * them in one atomic step. The connection is opened by the first call, and does not keep the process
 * alive.
 */
export class RedisStore {
  /** @internal */
  readonly native: NativeStore

  constructor(options: string | RedisOptions) {
    const { logger, ...own } = typeof options === 'string' ? { redis: options } : options
    const warn = warning(logger)
    this.native = guarded(() => new native.NativeStore(JSON.stringify(own), warn))
  }
}

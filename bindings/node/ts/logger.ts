/** Warnings about degraded operation. */

import { SlidegateError } from './errors.js'

/** Receives warnings. `console` and the loggers of most packages have this method. */
export interface Logger {
  warn(message: string): unknown
}

/** @internal Returns the function that receives warnings, `process.emitWarning` without a logger. */
export function warning(logger: Logger | undefined): (message: string) => void {
  if (logger !== undefined && typeof logger?.warn !== 'function') {
    throw new SlidegateError('setting', '`logger` has no function `warn`: use an object such as `console`')
  }
  return (message) => {
    if (logger === undefined) {
      process.emitWarning(message, { type: 'SlidegateWarning', code: 'SLIDEGATE_DEGRADED' })
      return
    }
    try {
      logger.warn(message)
    } catch (error) {
      // There is no caller, so the error would end the process.
      console.error(error)
    }
  }
}

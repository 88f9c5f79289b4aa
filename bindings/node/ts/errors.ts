/** Errors with a code. */

/** The kind of an error. Codes do not change. */
export type ErrorCode =
  | 'limit'
  | 'window'
  | 'cost'
  | 'policy'
  | 'setting'
  | 'unsupported'
  | 'waiters'
  | 'memory'
  | 'snapshot'
  | 'store'
  | 'other'

/** An invalid argument, or a store that failed. A denial is not an error. */
export class SlidegateError extends Error {
  /** The kind, such as `policy`. */
  readonly code: ErrorCode

  constructor(code: ErrorCode, message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'SlidegateError'
    this.code = code
  }
}

const PREFIX = /^slidegate\/(\w+): /

/** Returns the error of a native function. */
export function translate(error: unknown): SlidegateError {
  if (error instanceof SlidegateError) return error
  const text = error instanceof Error ? error.message : String(error)
  const found = PREFIX.exec(text)
  if (found === null) return new SlidegateError('other', text, { cause: error })
  return new SlidegateError(found[1] as ErrorCode, text.slice(found[0].length))
}

/** Calls a native function, and translates its exception. */
export function guarded<T>(call: () => T): T {
  try {
    return call()
  } catch (error) {
    throw translate(error)
  }
}

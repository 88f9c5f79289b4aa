/** A `fetch` that paces, waits and retries. */

import { Pacer, repeatOf } from './pacer.js'
import type { Settings } from './settings.js'

/** Options of `paceFetch` and `paceAxios`. */
export interface ClientOptions extends Partial<Settings> {
  /** A pacer that several clients share, instead of settings. */
  pacer?: Pacer
  /** Returns the scope of a request: requests of one scope share quotas. Its host by default. */
  scope?: (url: URL, method: string) => string
}

type Fetch = typeof globalThis.fetch

/** Returns the pacer and the function for scopes. */
export function prepare({ pacer, scope, ...settings }: ClientOptions) {
  return { pacer: pacer ?? new Pacer(settings), scopeOf: scope ?? ((url: URL) => url.host) }
}

/**
 * Returns a `fetch` that paces, waits and retries.
 *
 * ```js
 * const fetch = paceFetch()
 * const response = await fetch('https://api.example.com/items')
 * ```
 *
 * A response that is not retried is returned, also a 429. A request that would wait longer than
 * `deadlineMs` rejects with a `PacingError`.
 */
export function paceFetch(options: ClientOptions = {}, fetch: Fetch = globalThis.fetch): Fetch {
  const { pacer, scopeOf } = prepare(options)
  return async (input, init) => {
    const request = new Request(input, init)
    const { method, signal } = request
    const ticket = pacer.ticket(scopeOf(new URL(request.url), method))
    // A stream can be read once. Copying it would keep all of it in memory.
    const isRepeatable = !(isStream(init?.body) || (input instanceof Request && input.body !== null))
    const repeat = repeatOf(method, request.headers.has('idempotency-key'), isRepeatable)
    for (;;) {
      await pacer.acquire(ticket, signal)
      let response
      try {
        response = await fetch(repeat === 'never' ? request : request.clone())
      } catch (error) {
        pacer.fail(ticket)
        throw error
      }
      const { status, headers } = response
      if (!pacer.respond(ticket, status, (name) => headers.get(name), repeat)) return response
      // The connection is free only when the body has been read or canceled.
      await response.body?.cancel()
    }
  }
}

function isStream(body: unknown): boolean {
  return typeof body === 'object' && body !== null && ('getReader' in body || Symbol.asyncIterator in body)
}

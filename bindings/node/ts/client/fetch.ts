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
 *
 * A `fetch` other than the built-in one, such as that of the package undici, is called with the arguments
 * of each request.
 */
export function paceFetch(options: ClientOptions = {}, fetch: Fetch = globalThis.fetch): Fetch {
  const { pacer, scopeOf } = prepare(options)
  // Another fetch may have a class of requests of its own.
  const isBuiltIn = fetch === globalThis.fetch
  return async (input, init) => {
    const request = isBuiltIn ? new Request(input, init) : undefined
    const { url, method, headers, signal } = request ?? parts(input, init)
    const ticket = pacer.ticket(scopeOf(new URL(url), method))
    // A stream can be read once. Copying it would keep all of it in memory.
    const isRepeatable = !(isStream(init?.body) || (isRequest(input) && input.body !== null))
    const repeat = repeatOf(method, headers.has('idempotency-key'), isRepeatable)
    // A clone has no dispatcher, which is an option of Node.
    const { dispatcher } = (init ?? {}) as { dispatcher?: unknown }
    const more = (dispatcher === undefined ? undefined : { dispatcher }) as RequestInit | undefined
    const send = () => {
      if (request === undefined) return fetch(input, init)
      return fetch(repeat === 'never' ? request : request.clone(), more)
    }
    for (;;) {
      await pacer.acquire(ticket, signal)
      let response
      try {
        response = await send()
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

/** Returns the parts of a request that are needed before it is sent. */
function parts(input: string | URL | Request, init: RequestInit | undefined) {
  const request = isRequest(input) ? input : undefined
  return {
    url: request?.url ?? new URL(String(input), globalThis.location?.href).href,
    method: (init?.method ?? request?.method ?? 'GET').toUpperCase(),
    headers: new Headers(init?.headers ?? request?.headers),
    signal: init?.signal === undefined ? request?.signal : init.signal,
  }
}

/** Returns `true` for requests of any class. */
function isRequest(input: string | URL | Request): input is Request {
  return typeof input === 'object' && 'url' in input
}

function isStream(body: unknown): boolean {
  return typeof body === 'object' && body !== null && ('getReader' in body || Symbol.asyncIterator in body)
}

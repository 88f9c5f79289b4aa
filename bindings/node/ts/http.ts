/** Limits for `node:http`, and what other frameworks on top of it use. */

import type { IncomingMessage, ServerResponse } from 'node:http'

import { Guard, writeHeaders, type Checked, type GuardOptions, type RequestView } from './guard.js'
import { isDisconnected, peerOf } from './peer.js'

/** Options of `rateLimit`. */
export interface RateLimitOptions<Req extends IncomingMessage = IncomingMessage> extends GuardOptions<Req> {
  /** Responds to a denied request instead of the problem body. The header fields are already set. */
  onDenied?: (request: Req, response: ServerResponse, checked: Checked) => unknown
}

/** Returns `true` if the request is allowed. Otherwise, it has been answered. Never rejects. */
export type RateLimit<Req extends IncomingMessage> = (request: Req, response: ServerResponse) => Promise<boolean>

const VIEW: RequestView<IncomingMessage> = {
  address: (request) => peerOf(request.socket),
  peer: (request) => peerOf(request.socket),
  headers: (request) => request.headers,
  rawHeaders: (request) => request.rawHeaders,
}

/**
 * Limits the requests of a server of `node:http`.
 *
 * A request whose check fails, for example because `key` throws, gets a 500 and is passed to `onError`.
 *
 * ```js
 * const limit = rateLimit({ limiter: { quotas: '100/minute' } })
 * createServer(async (request, response) => {
 *   if (!(await limit(request, response))) return
 *   response.end('hello')
 * })
 * ```
 */
export function rateLimit<Req extends IncomingMessage = IncomingMessage>(options: RateLimitOptions<Req>): RateLimit<Req> {
  const guard = new Guard<Req>(options, VIEW)
  return async (request, response) => {
    try {
      const checked = await guard.check(request)
      if (checked === null) return true
      apply(checked, response)
      if (checked.allowed) return true
      if (options.onDenied === undefined) respond(checked, response)
      else await options.onDenied(request, response, checked)
    } catch (error) {
      if (!response.headersSent) response.statusCode = 500
      response.end()
      // Clients that disconnect before the check are not errors of the server.
      if (!isDisconnected(request.socket)) guard.report(error, request)
    }
    return false
  }
}

/** @internal Writes the header fields, and refunds the units of a response that does not count. */
export function apply(checked: Checked, response: ServerResponse): void {
  writeHeaders(
    checked,
    (name) => response.getHeader(name),
    (name, value) => response.setHeader(name, value),
  )
  const { finish } = checked
  if (finish !== undefined) response.once('finish', () => finish(response.statusCode))
}

/** @internal Responds to a denied request. */
export function respond(checked: Checked, response: ServerResponse): void {
  response.statusCode = checked.status
  response.setHeader('content-type', checked.contentType)
  response.end(checked.body)
}

export type { Checked, GuardOptions, HttpOptions, KeyPart, Limit } from './guard.js'

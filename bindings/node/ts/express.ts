/** Middleware for Express 4 and 5. */

import type { IncomingMessage, ServerResponse } from 'node:http'

import type { Decision } from './decision.js'
import { Guard, type Checked, type GuardOptions, type RequestView } from './guard.js'
import { apply, respond } from './http.js'
import { peerOf } from './peer.js'

/** What the middleware reads of a request. Express's own type has it. */
export interface ExpressRequest extends IncomingMessage {
  ip?: string | undefined
}

/** Options of `rateLimit`. */
export interface RateLimitOptions<Req extends ExpressRequest = ExpressRequest> extends GuardOptions<Req> {
  /** Responds to a denied request instead of the problem body. The header fields are already set. */
  onDenied?: (request: Req, response: ServerResponse, next: (error?: unknown) => void, checked: Checked) => unknown
}

/** A middleware. */
export type Middleware<Req extends ExpressRequest> = (
  request: Req,
  response: ServerResponse,
  next: (error?: unknown) => void,
) => void

const VIEW: RequestView<ExpressRequest> = {
  address: (request) => request.ip ?? peerOf(request.socket),
  peer: (request) => peerOf(request.socket),
  headers: (request) => request.headers,
  rawHeaders: (request) => request.rawHeaders,
}

/**
 * Limits the requests of an app, a router or a route. Addresses respect the app's `trust proxy`.
 *
 * `request.rateLimit` has the decisions, one per limit.
 */
export function rateLimit<Req extends ExpressRequest = ExpressRequest>(options: RateLimitOptions<Req>): Middleware<Req> {
  const guard = new Guard<Req>(options, VIEW)
  const proceed = (
    checked: Checked | null,
    request: Req & { rateLimit?: Decision[] },
    response: ServerResponse,
    next: (error?: unknown) => void,
  ): unknown => {
    if (checked === null) return next()
    request.rateLimit = checked.decisions
    apply(checked, response)
    if (checked.allowed) return next()
    if (options.onDenied === undefined) return respond(checked, response)
    return options.onDenied(request, response, next, checked)
  }
  return (request, response, next) => {
    const checked = guard.check(request)
    // Express 4 does not handle rejected promises.
    if (checked instanceof Promise) {
      checked.then((checked) => proceed(checked, request, response, next)).catch(next)
    } else {
      const done = proceed(checked, request, response, next)
      if (done instanceof Promise) done.catch(next)
    }
  }
}

export type { Checked, GuardOptions, HttpOptions, KeyPart, Limit } from './guard.js'

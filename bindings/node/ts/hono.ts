/** Middleware for Hono on Node. */

import type { IncomingMessage } from 'node:http'

import type { Context, MiddlewareHandler } from 'hono'

import { Guard, writeHeaders, type Checked, type GuardOptions, type RequestView } from './guard.js'
import { peerOf } from './peer.js'

/** Options of `rateLimit`. */
export interface RateLimitOptions extends GuardOptions<Context> {
  /** Responds to a denied request instead of the problem body. The header fields are added. */
  onDenied?: (context: Context, checked: Checked) => Response | Promise<Response>
}

/** `@hono/node-server` passes the request of `node:http`. */
function incoming(context: Context): IncomingMessage | undefined {
  const bindings = context.env as { incoming?: IncomingMessage; server?: { incoming?: IncomingMessage } } | undefined
  return (bindings?.server ?? bindings)?.incoming
}

function peer(context: Context): string | undefined {
  const request = incoming(context)
  return request && peerOf(request.socket)
}

const VIEW: RequestView<Context> = {
  address: peer,
  peer,
  headers: (context) => context.req.header(),
  rawHeaders: (context) => incoming(context)?.rawHeaders ?? [],
}

/** Limits the requests of an app or a route. */
export function rateLimit(options: RateLimitOptions): MiddlewareHandler {
  const guard = new Guard<Context>(options, VIEW)
  return async (context, next) => {
    const checked = await guard.check(context)
    if (checked === null) return next()
    if (checked.allowed) {
      await next()
      checked.finish?.(context.res.status)
    } else {
      context.res = await (options.onDenied?.(context, checked) ?? denied(checked))
    }
    writeHeaders(
      checked,
      (name) => context.res.headers.get(name) ?? undefined,
      (name, value) => context.header(name, value),
    )
  }
}

function denied({ body, status, contentType }: Checked): Response {
  return new Response(body, { status, headers: { 'content-type': contentType } })
}

export type { Checked, GuardOptions, HttpOptions, KeyPart, Limit } from './guard.js'

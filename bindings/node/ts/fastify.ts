/** A plugin and hooks for Fastify. */

import type { FastifyInstance, FastifyReply, FastifyRequest, RegisterOptions } from 'fastify'

import { Guard, writeHeaders, type Checked, type GuardOptions, type RequestView } from './guard.js'
import { peerOf } from './peer.js'

/** Options of `rateLimit` and of the plugin. */
export interface RateLimitOptions extends GuardOptions<FastifyRequest> {
  /** Responds to a denied request instead of the problem body. The header fields are already set. */
  onDenied?: (request: FastifyRequest, reply: FastifyReply, checked: Checked) => unknown
}

const VIEW: RequestView<FastifyRequest> = {
  // Fastify's type does not say that an address may be missing.
  address: (request) => (request.ip as string | undefined) ?? peerOf(request.socket),
  peer: (request) => peerOf(request.socket),
  headers: (request) => request.headers,
  rawHeaders: (request) => request.raw.rawHeaders,
}

/** Returns an `onRequest` hook for a route or an app. Addresses respect Fastify's `trustProxy`. */
export function rateLimit(options: RateLimitOptions) {
  const guard = new Guard<FastifyRequest>(options, VIEW)
  return async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply | undefined> => {
    const checked = await guard.check(request)
    if (checked === null) return undefined
    writeHeaders(
      checked,
      (name) => reply.getHeader(name),
      (name, value) => reply.header(name, value),
    )
    const { finish } = checked
    if (finish !== undefined) reply.raw.once('finish', () => finish(reply.statusCode))
    if (checked.allowed) return undefined
    if (options.onDenied !== undefined) await options.onDenied(request, reply, checked)
    if (reply.sent) return reply
    return reply.code(checked.status).type(checked.contentType).send(checked.body)
  }
}

/** A plugin that limits every request of an app, also those without a route. */
export async function slidegate(app: FastifyInstance, options: RateLimitOptions): Promise<void> {
  // Fastify's own options of `register` are passed on to the plugin.
  const { prefix: _, logLevel: __, logSerializers: ___, ...own } = options as RateLimitOptions & RegisterOptions
  app.addHook('onRequest', rateLimit(own))
}

// Without this symbol, the hook would apply only to routes of the plugin itself.
Object.assign(slidegate, { [Symbol.for('skip-override')]: true })

export type { Checked, GuardOptions, HttpOptions, KeyPart, Limit } from './guard.js'

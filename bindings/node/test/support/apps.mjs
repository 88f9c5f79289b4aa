// One app per framework, with the same routes, listening on a free port of the loopback interface, or on
// the unix socket `path`.

import { createServer } from 'node:http'
import { once } from 'node:events'

import { createAdaptorServer } from '@hono/node-server'
import express5 from 'express'
import express4 from 'express4'
import fastify from 'fastify'
import { Hono } from 'hono'

import { rateLimit as expressLimit } from 'slidegate/express'
import { rateLimit as fastifyLimit, slidegate } from 'slidegate/fastify'
import { rateLimit as honoLimit } from 'slidegate/hono'
import { rateLimit as httpLimit } from 'slidegate/http'

/**
 * Every app limits all requests by `options`, and `/route` again by `route`. `/fail` responds with
 * 500 after `onFail`, if given, and every response but those of the limits has the body `hello`.
 */
export const FRAMEWORKS = {
  'express 4': (options, route) => expressApp(express4, options, route),
  'express 5': (options, route, onFail) => expressApp(express5, options, route, onFail),

  async fastify(options, route) {
    const { trustProxy, path, ...rest } = options
    const app = fastify({ trustProxy: trustProxy ?? false })
    await app.register(slidegate, rest)
    app.get('/', async () => 'hello')
    app.get('/fail', async (_, reply) => reply.code(500).send('hello'))
    if (route) app.get('/route', { onRequest: fastifyLimit(route) }, async () => 'hello')
    await app.listen(place(path))
    return { server: app.server, port: app.server.address().port, close: () => app.close() }
  },

  async hono(options, route) {
    const app = new Hono()
    app.use(honoLimit(trusting(options)))
    app.get('/', (context) => context.text('hello'))
    app.get('/fail', () => new Response('hello', { status: 500 }))
    if (route) app.get('/route', honoLimit(route), (context) => context.text('hello'))
    return listening(createAdaptorServer({ fetch: app.fetch }), options.path)
  },

  async 'node:http'(options, route) {
    const limit = httpLimit(trusting(options))
    const limitRoute = route && httpLimit(route)
    const server = createServer(async (request, response) => {
      if (!(await limit(request, response))) return
      if (request.url === '/route' && !(await limitRoute(request, response))) return
      response.statusCode = { '/': 200, '/route': 200, '/fail': 500 }[request.url] ?? 404
      response.end('hello')
    })
    return listening(server, options.path)
  },
}

async function expressApp(express, options, route, onFail = () => {}) {
  const { trustProxy, path, ...rest } = options
  const app = express()
  app.set('trust proxy', trustProxy ?? false)
  app.use(expressLimit(rest))
  app.get('/', (_, response) => response.send('hello'))
  app.get('/fail', (request, response) => {
    onFail(request)
    response.status(500).send('hello')
  })
  if (route) app.get('/route', expressLimit(route), (_, response) => response.send('hello'))
  return listening(createServer(app), path)
}

/** These frameworks have no setting for proxies: our own address rules apply. */
function trusting({ trustProxy, path: _, ...options }) {
  return trustProxy ? { ...options, address: { trustedProxies: [trustProxy] } } : options
}

function place(path) {
  return path === undefined ? { host: '127.0.0.1', port: 0 } : { path }
}

async function listening(server, path) {
  server.listen(place(path))
  await once(server, 'listening')
  return {
    server,
    port: server.address().port,
    close: () =>
      new Promise((resolve) => {
        server.close(resolve)
        server.closeAllConnections()
      }),
  }
}

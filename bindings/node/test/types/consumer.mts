// Compiled by `package.test.mjs` in a project that has installed the package, with all checks of TypeScript.

import express, { type Request } from 'express'
import { rateLimit as thirdParty } from 'express-rate-limit'
import fastify from 'fastify'
import { Hono } from 'hono'
import axios from 'axios'

import { checkAll, limitersFromYaml, Limiter, ManualClock, RedisLimiter, SlidegateError, type Decision, type ErrorCode } from 'slidegate'
import { Pacer, paceAxios, paceFetch, PacingError } from 'slidegate/client'
import { rateLimit as forExpress } from 'slidegate/express'
import { SlidegateStore } from 'slidegate/express-rate-limit'
import { rateLimit as forFastify, slidegate } from 'slidegate/fastify'
import { rateLimit as forHono } from 'slidegate/hono'
import { rateLimit as forHttp } from 'slidegate/http'

const limiter = new Limiter({ quotas: ['10/second', { limit: 5, windowMs: 10 }], clock: new ManualClock() })
const decision: Decision = limiter.check('a', { cost: 2, tier: undefined })
const retryAfterMs: number | null = decision.retryAfterMs
const redis = new RedisLimiter({ name: 'api', quotas: '1/s', redis: { sentinel: { addresses: ['a:1'], service: 'b' } } })
const later: Promise<Decision> = redis.check('a')
const usage: number[] = limiter.usage('a')
const usageLater: Promise<number[]> = redis.usage('a')
const all: Decision[] = checkAll([{ limiter, key: 'a' }])
const some: Decision[] | Promise<Decision[]> = checkAll([{ limiter: redis, key: 'a' }])
const named: Record<string, Limiter | RedisLimiter> = limitersFromYaml('')
const code: ErrorCode = new SlidegateError('cost', '').code

// @ts-expect-error a limiter needs quotas
new Limiter({ name: 'a' })
// @ts-expect-error `mode` is one of three words
new Limiter({ quotas: '1/s', mode: 'on' })
// @ts-expect-error the result in Redis is a promise
const wrong: Decision = redis.check('a')

const app = express()
app.use(forExpress({ limiter }))
app.get('/:id', forExpress<Request>({ limiter, key: (request) => request.params['id'] as string }), (_, response) => {
  response.end()
})
app.use(thirdParty({ store: new SlidegateStore({ prefix: 'a' }) }))
const server = fastify()
await server.register(slidegate, { limiter, key: (request) => request.ip })
server.get('/', { onRequest: forFastify({ limits: [{ limiter }, { limiter: redis, key: ['ip', { header: 'a' }] }] }) }, async () => '')
new Hono().use(forHono({ limiter, count: (status) => status >= 500 }))
const handle = forHttp({ limiter, skip: (request) => request.url === '/health' })

const fetch: typeof globalThis.fetch = paceFetch({ pacer: new Pacer({ attemptsMax: 3 }) })
paceAxios(axios.create(), { scope: (url) => url.pathname })
const pacing: string = new PacingError('deadline', '').code
export { retryAfterMs, later, usage, usageLater, all, some, named, code, wrong, handle, fetch, pacing }

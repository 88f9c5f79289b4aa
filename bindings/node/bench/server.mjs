// Requests per second of Express without a limiter, with slidegate and with others, and the server's
// processor time per request, which other programs affect less.
//
//   node server.mjs [REQUESTS]
//
// Each variant is a process of its own. They take turns, with this number of requests in every round.

import { fork } from 'node:child_process'
import { once } from 'node:events'
import { Agent, request } from 'node:http'

const ROUNDS = 5
const CONNECTIONS = 16
const VARIANTS = ['none', 'slidegate', 'express-rate-limit', 'express-rate-limit on slidegate', 'rate-limiter-flexible']

if (process.send) {
  await serve(process.argv[2])
} else {
  await compare(Number(process.argv[2] ?? 5000))
}

async function serve(variant) {
  const { default: express } = await import('express')
  const app = express()
  const middleware = await limiting(variant)
  if (middleware) app.use(middleware)
  app.get('/', (_, response) => response.send('hello'))
  const server = app.listen(0, '127.0.0.1', () => process.send(server.address().port))
  process.on('message', () => process.send(process.cpuUsage()))
}

/** Limits that no request reaches, by address. */
async function limiting(variant) {
  const [limit, windowMs] = [1_000_000_000, 60_000]
  if (variant === 'slidegate') {
    const { rateLimit } = await import('slidegate/express')
    return rateLimit({ limiter: { quotas: { limit, windowMs } } })
  }
  if (variant.startsWith('express-rate-limit')) {
    const { rateLimit } = await import('express-rate-limit')
    const { SlidegateStore } = await import('slidegate/express-rate-limit')
    const store = variant.endsWith('slidegate') ? new SlidegateStore() : undefined
    return rateLimit({ limit, windowMs, standardHeaders: 'draft-8', store })
  }
  if (variant === 'rate-limiter-flexible') {
    // It sets no header fields.
    const { RateLimiterMemory } = await import('rate-limiter-flexible')
    const limiter = new RateLimiterMemory({ points: limit, duration: windowMs / 1000 })
    return (request, response, next) => {
      limiter.consume(request.ip).then(() => next(), () => response.status(429).end())
    }
  }
  return undefined
}

async function compare(requests) {
  const servers = []
  for (const variant of VARIANTS) {
    const child = fork(process.argv[1], [variant])
    const [port] = await once(child, 'message')
    servers.push({ variant, child, port, rates: [], micros: [] })
    await load(port, requests)
  }
  for (let round = 0; round < ROUNDS; round++) {
    for (const { child, port, rates, micros } of servers) {
      const before = await usage(child)
      rates.push(await load(port, requests))
      micros.push(((await usage(child)) - before) / requests)
    }
  }
  for (const { variant, child, rates, micros } of servers) {
    console.log(`${variant}: ${Math.round(median(micros))} us per request, ${Math.round(median(rates))} requests/s`)
    child.kill()
  }
}

/** Returns the processor time of a server in microseconds. */
async function usage(child) {
  child.send('usage')
  const [{ user, system }] = await once(child, 'message')
  return user + system
}

/** Returns the requests per second of some connections that always have a request in flight. */
async function load(port, requests) {
  const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS })
  const start = performance.now()
  let started = 0
  const worker = async () => {
    while (started < requests) {
      started += 1
      await new Promise((resolve, reject) => {
        const sent = request({ port, host: '127.0.0.1', agent }, (response) => response.resume().once('end', resolve))
        sent.once('error', reject).end()
      })
    }
  }
  await Promise.all(Array.from({ length: CONNECTIONS }, worker))
  agent.destroy()
  return requests / ((performance.now() - start) / 1000)
}

function median(list) {
  return list.toSorted((one, other) => one - other)[list.length >> 1]
}

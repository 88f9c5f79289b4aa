// fetch and axios against a server that limits them, in real time.

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { Readable } from 'node:stream'
import { test } from 'node:test'

import axios from 'axios'
import express from 'express'

import { Limiter } from 'slidegate'
import { Pacer, paceAxios, paceFetch } from 'slidegate/client'
import { rateLimit } from 'slidegate/express'

/** Runs a server, and counts its responses by status. */
async function serving(options, use) {
  const app = express()
  const statuses = {}
  app.use((_, response, next) => {
    response.once('finish', () => (statuses[response.statusCode] = (statuses[response.statusCode] ?? 0) + 1))
    next()
  })
  app.use(rateLimit(options))
  app.use(express.json(), express.text())
  app.all('/', (request, response) => response.json({ body: request.body ?? null }))
  const server = app.listen(0, '127.0.0.1')
  await once(server, 'listening')
  try {
    await use(`http://127.0.0.1:${server.address().port}/`, statuses)
  } finally {
    server.close()
    server.closeAllConnections()
  }
}

/** Each client returns the status and the body of a request. */
const CLIENTS = {
  fetch(options) {
    const fetch = paceFetch(options)
    return async (url, { method = 'GET', data, signal, headers } = {}) => {
      const isStream = data instanceof Readable
      const body = data === undefined || isStream ? data : JSON.stringify(data)
      const type = isStream ? 'text/plain' : 'application/json'
      const init = { method, body, signal, headers: { 'content-type': type, ...headers }, duplex: 'half' }
      const response = await fetch(url, init)
      return { status: response.status, body: (await response.json()).body }
    }
  },
  axios(options) {
    const instance = axios.create({ validateStatus: () => true })
    paceAxios(instance, options)
    return async (url, { method = 'GET', data, signal, headers } = {}) => {
      const type = data instanceof Readable ? 'text/plain' : 'application/json'
      const response = await instance.request({ url, method, data, signal, headers: { 'content-type': type, ...headers } })
      return { status: response.status, body: response.data.body }
    }
  },
}

for (const [name, make] of Object.entries(CLIENTS)) {
  test(`${name}: paced requests all succeed`, async () => {
    await serving({ limiter: new Limiter({ name: 'api', quotas: '20/second' }) }, async (url, statuses) => {
      // A busy machine may delay requests by more than the margin of the client, so some are refused.
      // That none is sent early is tested on a fake clock.
      const pacer = new Pacer({ budgetFloor: 1000, attemptsMax: 50 })
      const send = make({ pacer })
      const responses = await Promise.all(Array.from({ length: 50 }, () => send(url)))
      assert.ok(responses.every(({ status }) => status === 200))
      assert.equal(statuses[200], 50)
      assert.equal(pacer.stats().refusals, statuses[429] ?? 0)
      assert.equal(pacer.stats().sent, 50 + pacer.stats().retries)
    })
  })

  test(`${name}: refused requests are retried, with their bodies`, async () => {
    await serving({ limiter: new Limiter({ name: 'api', quotas: '3/second' }) }, async (url, statuses) => {
      const send = make({ pacing: false, budgetFloor: 1000, attemptsMax: 50 })
      const requests = Array.from({ length: 8 }, (_, number) => send(url, { method: 'POST', data: { number } }))
      const responses = await Promise.all(requests)
      assert.deepEqual(responses.map(({ status }) => status), Array(8).fill(200))
      assert.deepEqual(responses.map(({ body }) => body.number), [0, 1, 2, 3, 4, 5, 6, 7])
      assert.ok(statuses[429] >= 5, 'without pacing, requests are refused first')
    })
  })

  test(`${name}: streams are sent once, and other refusals are returned`, async () => {
    await serving({ limiter: new Limiter({ name: 'api', quotas: '1/hour' }) }, async (url, statuses) => {
      const send = make({ pacing: false })
      assert.equal((await send(url)).status, 200)
      const data = Readable.from(['text'])
      assert.equal((await send(url, { method: 'POST', data })).status, 429)
      assert.equal((await make({ attemptsMax: 1 })(url)).status, 429)
      assert.equal(statuses[429], 2, 'neither is sent again')
    })
    // The failure mode `deny` responds with 503, which may have been handled.
    const broken = { name: 'broken', quotas: '1/hour', failureMode: 'deny', redis: 'redis://127.0.0.1:1' }
    await serving({ limiter: broken }, async (url, statuses) => {
      const quick = { pacing: false, attemptsMax: 3, backoffFirstMs: 1, backoffMaxMs: 1 }
      assert.equal((await make(quick)(url, { method: 'POST', data: {} })).status, 503)
      assert.equal(statuses[503], 1)
      assert.equal((await make(quick)(url, { method: 'POST', data: {}, headers: { 'Idempotency-Key': 'a' } })).status, 503)
      assert.equal((await make(quick)(url)).status, 503)
    })
  })

  test(`${name}: waiting ends when the signal is aborted, or the deadline is too short`, async () => {
    await serving({ limiter: new Limiter({ name: 'api', quotas: '1/hour' }) }, async (url) => {
      const send = make({ deadlineMs: 10_000_000 })
      assert.equal((await send(url)).status, 200)
      const controller = new AbortController()
      const waiting = send(url, { signal: controller.signal })
      controller.abort()
      await assert.rejects(waiting, (error) => /abort|cancel/i.test(`${error.name} ${error.message}`))
      const hasty = make({ deadlineMs: 1000 })
      assert.equal((await hasty(url)).status, 429, 'the wait would be longer than the deadline')
      await assert.rejects(hasty(url), { name: 'PacingError', code: 'deadline' })
    })
  })
}

test('a server that is gone is an error of fetch and axios', async () => {
  const gone = 'http://127.0.0.1:1/'
  for (const make of Object.values(CLIENTS)) {
    const pacer = new Pacer()
    const send = make({ pacer })
    await assert.rejects(send(gone))
    await assert.rejects(send(gone))
    assert.equal(pacer.stats().sent, 2)
  }
})

test('an instance of axios without a base is restored', async () => {
  const instance = axios.create()
  const remove = paceAxios(instance)
  remove()
  await serving({ limiter: new Limiter({ quotas: '1/hour' }) }, async (url) => {
    assert.equal((await instance.get(url)).status, 200)
    await assert.rejects(instance.get(url), { status: 429 })
  })
})

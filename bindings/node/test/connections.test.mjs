// Connections without an address: a client that disconnects at once, and a unix socket.

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { request } from 'node:http'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'

import { Limiter } from 'slidegate'
import { rateLimit } from 'slidegate/http'

import { FRAMEWORKS } from './support/apps.mjs'
import { until } from './support/until.mjs'

const limiterOf = (quotas) => new Limiter({ name: 'api', quotas })

async function statusOf(options) {
  const sent = request(options).end()
  const [response] = await once(sent, 'response')
  response.resume()
  await once(response, 'end')
  return response.statusCode
}

for (const [name, start] of Object.entries(FRAMEWORKS)) {
  test(`${name}: a client that resets its connection at once does not end the process`, async () => {
    const limiter = limiterOf('1/hour')
    const errors = []
    const app = await start({ limiter, onError: (error) => errors.push(error) })
    let withoutAddress = 0
    app.server.prependListener('request', ({ socket }) => {
      if (socket.remoteAddress === undefined) withoutAddress += 1
    })
    try {
      await until(async () => {
        const socket = connect(app.port, '127.0.0.1')
        await once(socket, 'connect')
        socket.write('GET / HTTP/1.1\r\nhost: a\r\n\r\n')
        socket.resetAndDestroy()
        return withoutAddress > 0
      }, 'a request arrives after its connection was reset')
      limiter.reset('127.0.0.1')
      assert.equal(await statusOf({ port: app.port, host: '127.0.0.1' }), 200)
      assert.deepEqual(errors, [])
    } finally {
      await app.close()
    }
  })

  const isWindows = process.platform === 'win32'
  test(`${name}: clients of a unix socket count as 127.0.0.1`, { skip: isWindows }, async () => {
    const folder = mkdtempSync(join(tmpdir(), 'slidegate-node-'))
    const socketPath = join(folder, 'socket')
    const limiter = limiterOf('1/hour')
    const app = await start({ limiter, path: socketPath })
    try {
      assert.equal(await statusOf({ socketPath }), 200)
      assert.equal(await statusOf({ socketPath }), 429)
      assert.deepEqual(limiter.usage('127.0.0.1'), [1])
    } finally {
      await app.close()
      rmSync(folder, { recursive: true })
    }
  })
}

test('node:http: an error of a check is reported, and the response is 500', async () => {
  const failure = new Error('no database')
  const errors = []
  const options = {
    limiter: limiterOf('1/hour'),
    key: () => {
      throw failure
    },
    onError: (error, request) => errors.push([error, request.url]),
  }
  const app = await FRAMEWORKS['node:http'](options)
  try {
    assert.equal(await statusOf({ port: app.port, host: '127.0.0.1' }), 500)
    assert.deepEqual(errors, [[failure, '/']])
  } finally {
    await app.close()
  }
})

test('node:http: an `onError` that fails does not end the process', async (context) => {
  const failure = new Error('no log')
  const logged = context.mock.method(console, 'error', () => {})
  const failing = {
    now: () => {
      throw failure
    },
    later: async () => {
      throw failure
    },
  }
  for (const onError of Object.values(failing)) {
    const key = () => {
      throw new Error('no database')
    }
    const app = await FRAMEWORKS['node:http']({ limiter: limiterOf('1/hour'), key, onError })
    try {
      assert.equal(await statusOf({ port: app.port, host: '127.0.0.1' }), 500)
    } finally {
      await app.close()
    }
  }
  assert.deepEqual(logged.mock.calls.map(({ arguments: [error] }) => error), [failure, failure])
})

test('a socket without addresses is not taken for a unix socket', async () => {
  const limiter = limiterOf('1/hour')
  const errors = []
  const limit = rateLimit({ limiter, onError: (error) => errors.push(error.message) })
  const response = { setHeader() {}, getHeader() {}, on() {}, end() {}, headersSent: false }
  assert.equal(await limit({ headers: {}, socket: {} }, response), false)
  assert.deepEqual(limiter.usage('127.0.0.1'), [0])
  assert.match(errors.join(), /no client address/)
})

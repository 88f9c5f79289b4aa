// Every framework, listening on a socket.

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { request } from 'node:http'
import { test } from 'node:test'

import { Limiter, ManualClock, metrics } from 'slidegate'

import { FRAMEWORKS } from './support/apps.mjs'
import { until } from './support/until.mjs'

/** Starts an app, calls a function with a client, and stops the app. */
async function serving(start, options, route, use) {
  const app = await start(options, route)
  const get = async (path = '/', headers = {}) => {
    const response = await fetch(`http://127.0.0.1:${app.port}${path}`, { headers })
    return { status: response.status, headers: response.headers, body: await response.text() }
  }
  // `fetch` joins the lines of a field.
  const sendRaw = async (headers) => {
    const sent = request({ host: '127.0.0.1', port: app.port, headers: ['host', 'localhost', ...headers] }).end()
    const [response] = await once(sent, 'response')
    response.resume()
    return response.statusCode
  }
  try {
    await use(get, sendRaw)
  } finally {
    await app.close()
  }
}

const limiterOf = (quotas, options) => new Limiter({ name: 'api', quotas, clock: new ManualClock(), ...options })

for (const [name, start] of Object.entries(FRAMEWORKS)) {
  test(`${name}: headers, denial, recovery, and requests without a route`, async () => {
    const clock = new ManualClock()
    const limiter = new Limiter({ name: 'api', quotas: ['2/second', '10/hour'], clock })
    await serving(start, { limiter }, undefined, async (get) => {
      const first = await get()
      assert.equal(first.status, 200)
      assert.equal(first.body, 'hello')
      assert.equal(first.headers.get('ratelimit'), '"api-1s";r=1;t=1, "api-3600s";r=9;t=3600')
      assert.equal(first.headers.get('ratelimit-policy'), '"api-1s";q=2;w=1, "api-3600s";q=10;w=3600')
      assert.equal(first.headers.get('x-ratelimit-limit'), '2')
      assert.equal(first.headers.get('x-ratelimit-remaining'), '1')
      assert.equal(first.headers.get('x-ratelimit-reset'), '1')
      assert.equal(first.headers.get('retry-after'), null)
      assert.equal((await get('/no-such-route')).status, 404)

      const denied = await get('/no-such-route', { traceparent: `00-${'ab'.repeat(16)}-${'01'.repeat(8)}-01` })
      assert.equal(denied.status, 429, 'requests are limited before the route is resolved')
      assert.equal(denied.headers.get('retry-after'), '1')
      assert.equal(denied.headers.get('cache-control'), 'no-store')
      assert.match(denied.headers.get('content-type'), /^application\/problem\+json/)
      const problem = JSON.parse(denied.body)
      assert.equal(problem.status, 429)
      assert.deepEqual(problem['violated-policies'], ['api-1s'])
      assert.equal(problem.trace_id, 'ab'.repeat(16))

      clock.advance(1000)
      assert.equal((await get()).status, 200)
    })
  })

  test(`${name}: keys, costs, tiers and skipped requests`, async () => {
    const limiter = limiterOf('4/minute', { tiers: { gold: '100/minute' } })
    const header = (request, name) => (request.req ? request.req.header(name) : request.headers[name])
    const options = {
      limiter,
      key: { header: 'X-Api-Key' },
      missingKey: 'deny',
      cost: (request) => Number(header(request, 'x-cost') ?? 1),
      tier: async (request) => header(request, 'x-tier'),
      skip: (request) => header(request, 'x-skip') === 'yes',
    }
    await serving(start, options, undefined, async (get) => {
      const status = async (headers) => (await get('/', headers)).status
      assert.equal(await status({ 'x-api-key': 'a', 'x-cost': '4' }), 200)
      assert.equal(await status({ 'x-api-key': 'a' }), 429)
      assert.equal(await status({ 'x-api-key': 'a', 'x-skip': 'yes' }), 200)
      assert.equal(await status({ 'x-api-key': 'b' }), 200)
      const gold = await get('/', { 'x-api-key': 'c', 'x-tier': 'gold' })
      assert.equal(gold.headers.get('x-ratelimit-remaining'), '99')
      const missing = await get('/')
      assert.equal(missing.status, 403)
      assert.equal(JSON.parse(missing.body).detail, 'the request has no key to be counted by, or several')
      assert.equal(await status({ 'x-api-key': 'd', 'x-tier': 'none' }), 500, 'an unknown tier is an error')
    })
  })

  test(`${name}: a header with several values is no new key`, async () => {
    const key = { header: 'X-Api-Key' }
    const junk = (count) => ['x-api-key', 'valid', 'x-api-key', `junk${count}`]
    await serving(start, { limiter: limiterOf('2/minute'), key }, undefined, async (_, sendRaw) => {
      for (let request = 0; request < 5; request += 1) assert.equal(await sendRaw(junk(request)), 403)
      assert.equal(await sendRaw(['x-api-key', 'valid, junk']), 403, 'a proxy may join lines')
      assert.equal(await sendRaw(['authorization', 'Bearer a']), 200)
      assert.equal(await sendRaw(['x-api-key', 'valid']), 200)
    })
    for (const [duplicates, statuses] of [['first', [200, 200, 429]], ['last', [200, 200, 200]]]) {
      const options = { limiter: limiterOf('2/minute'), key, duplicates }
      await serving(start, options, undefined, async (_, sendRaw) => {
        const sent = []
        for (const request of [0, 1, 2]) sent.push(await sendRaw(junk(request)))
        assert.deepEqual(sent, statuses, duplicates)
      })
    }
    // Node drops all lines of this field but the first.
    const options = { limiter: limiterOf('2/minute'), key: { header: 'authorization' } }
    await serving(start, options, undefined, async (_, sendRaw) => {
      assert.equal(await sendRaw(['authorization', 'Bearer a', 'authorization', 'Bearer b']), 403)
      const schemes = ['Bearer a', 'bearer a', 'BEARER  a']
      const sent = []
      for (const scheme of schemes) sent.push(await sendRaw(['authorization', scheme]))
      assert.deepEqual(sent, [200, 200, 429], 'the scheme has no case')
    })
  })

  test(`${name}: a missing key is denied only if the policy is enforced for all keys`, async () => {
    for (const [mode, status] of [['enforce', 403], ['shadow', 200], ['off', 200]]) {
      const options = { limiter: limiterOf('1/minute', { mode }), key: { header: 'x-api-key' }, missingKey: 'deny' }
      await serving(start, options, undefined, async (get) => {
        for (let request = 0; request < 2; request += 1) assert.equal((await get('/')).status, status, mode)
      })
    }
  })

  test(`${name}: a request without a key is counted by its address, separately from all keys`, async () => {
    const limiter = limiterOf('1/minute')
    await serving(start, { limiter, key: { header: 'x-api-key' } }, undefined, async (get) => {
      assert.equal((await get('/', { 'x-api-key': '127.0.0.1' })).status, 200)
      assert.equal((await get('/')).status, 200)
      assert.equal((await get('/')).status, 429)
    })
  })

  test(`${name}: addresses respect trusted proxies only`, async () => {
    const forwarded = (address) => ({ 'x-forwarded-for': address })
    await serving(start, { limiter: limiterOf('1/minute') }, undefined, async (get) => {
      assert.equal((await get('/', forwarded('192.0.2.1'))).status, 200)
      assert.equal((await get('/', forwarded('192.0.2.2'))).status, 429, 'a client does not choose its key')
    })
    const options = { limiter: limiterOf('1/minute'), trustProxy: '127.0.0.1' }
    await serving(start, options, undefined, async (get) => {
      assert.equal((await get('/', forwarded('192.0.2.1'))).status, 200)
      assert.equal((await get('/', forwarded('192.0.2.2'))).status, 200)
      assert.equal((await get('/', forwarded('6.6.6.6, 192.0.2.2'))).status, 429, 'the nearest hop counts')
      assert.equal((await get('/', forwarded('192.0.2.2:51234'))).status, 429, 'a port does not count')
      assert.equal((await get('/', forwarded('2001:db8::1'))).status, 200)
      assert.equal((await get('/', forwarded('2001:db8::2'))).status, 429, 'a /64 is one client')
      assert.equal((await get('/', forwarded('::ffff:192.0.2.1'))).status, 429, 'mapped is the IPv4 address')
    })
  })

  test(`${name}: only failures count`, async () => {
    const limiter = limiterOf('2/minute')
    await serving(start, { limiter, count: 'failed', key: () => 'k' }, undefined, async (get) => {
      for (let turn = 0; turn < 5; turn++) {
        assert.equal((await get('/')).status, 200)
        await until(() => limiter.usage('k')[0] === 0, 'the unit of a success is refunded')
      }
      assert.equal((await get('/fail')).status, 500)
      assert.equal((await get('/fail')).status, 500)
      assert.equal((await get('/')).status, 429)
    })
  })

  test(`${name}: shadow mode shows nothing to clients`, async () => {
    await serving(start, { limiter: limiterOf('1/minute', { mode: 'shadow' }) }, undefined, async (get) => {
      await get()
      const second = await get()
      assert.equal(second.status, 200)
      assert.equal(second.headers.get('ratelimit'), null)
    })
  })

  test(`${name}: a route has limits of its own`, async () => {
    const limiter = limiterOf('10/minute')
    const route = { limiter: limiterOf('1/minute', { name: 'route' }) }
    await serving(start, { limiter }, route, async (get) => {
      const first = await get('/route')
      assert.equal(first.status, 200)
      assert.match(first.headers.get('ratelimit'), /"route";r=0/)
      assert.equal(first.headers.get('x-ratelimit-remaining'), '0')
      const denied = await get('/route')
      assert.equal(denied.status, 429)
      assert.deepEqual(JSON.parse(denied.body)['violated-policies'], ['route'])
      assert.equal((await get('/')).status, 200)
    })
  })

  test(`${name}: several limits, all or nothing`, async () => {
    const one = limiterOf('5/minute', { name: 'one' })
    const limits = [
      { limiter: one, key: 'ip' },
      { limiter: limiterOf('1/minute', { name: 'two' }), key: ['ip', { header: 'x-user' }] },
    ]
    await serving(start, { limits, http: { body: 'json', xRatelimit: 'off' } }, undefined, async (get) => {
      assert.equal((await get('/', { 'x-user': 'a' })).status, 200)
      const denied = await get('/', { 'x-user': 'a' })
      assert.equal(denied.status, 429)
      assert.equal(denied.headers.get('x-ratelimit-limit'), null)
      assert.equal(JSON.parse(denied.body).error, 'quota_exceeded')
      assert.deepEqual(one.usage('127.0.0.1'), [1], 'a denied request takes from no limiter')
      assert.equal((await get('/', { 'x-user': 'b' })).status, 200)
    })
  })

  test(`${name}: a function responds to denials`, async () => {
    const onDenied = (...args) => {
      // Hono passes its context, the others a response or a reply.
      if (args[0].req?.header) return args[0].text('slow down', 420)
      const response = args[1]
      if (response.code) return response.code(420).send('slow down')
      response.statusCode = 420
      return response.end('slow down')
    }
    await serving(start, { limiter: limiterOf('1/minute'), onDenied }, undefined, async (get) => {
      await get()
      const denied = await get()
      assert.equal(denied.status, 420)
      assert.equal(denied.body, 'slow down')
      assert.equal(denied.headers.get('retry-after'), '60')
    })
  })

  test(`${name}: errors of functions reach the framework`, async () => {
    const key = () => {
      throw new Error('no database')
    }
    const onError = () => {}
    await serving(start, { limiter: limiterOf('1/minute'), key, onError }, undefined, async (get) => {
      assert.equal((await get()).status, 500)
    })
    const rejecting = async () => key()
    await serving(start, { limiter: limiterOf('1/minute'), key: rejecting, onError }, undefined, async (get) => {
      assert.equal((await get()).status, 500)
    })
  })
}

test('express: `count` leaves units that the handler has settled', async () => {
  const limiter = limiterOf('10/minute')
  const options = { limiter, key: () => 'k', cost: 5, count: 'successful' }
  const start = (options) => FRAMEWORKS['express 5'](options, undefined, ({ rateLimit }) => limiter.settle(rateLimit[0].receipt, 2))
  await serving(start, options, undefined, async (get) => {
    assert.equal((await get('/fail')).status, 500)
    assert.equal((await get('/fail')).status, 500)
    assert.deepEqual(limiter.usage('k'), [4])
  })
})

test('express: `count` also refunds the units of the candidate', async () => {
  const limiter = limiterOf('100/minute', { name: 'with-candidate', candidate: { quotas: '2/minute' } })
  await serving(FRAMEWORKS['express 5'], { limiter, count: 'failed', key: () => 'k' }, undefined, async (get) => {
    for (let turn = 0; turn < 5; turn++) {
      assert.equal((await get()).status, 200)
      await until(() => limiter.usage('k')[0] === 0, 'the unit of a success is refunded')
    }
  })
  const lines = metrics().match(/rate_limit_candidate_total{policy="with-candidate".*/g)
  assert.equal(lines.length, 1, lines.join('\n'))
  assert.match(lines[0], /candidate_outcome="allowed"} 5$/)
})

for (const [name, start] of Object.entries(FRAMEWORKS)) {
  test(`${name}: an error of \`count\` is reported and leaves the response`, async () => {
    const failure = new Error('no log')
    const count = () => {
      throw failure
    }
    const limiter = limiterOf('10/minute')
    const errors = []
    const options = { limiter, key: () => 'k', count, onError: (error) => errors.push(error) }
    await serving(start, options, undefined, async (get) => {
      assert.equal((await get()).status, 200)
      await until(() => errors.length > 0, 'the error is reported')
      assert.deepEqual(errors, [failure])
      assert.deepEqual(limiter.usage('k'), [1])
    })
  })
}

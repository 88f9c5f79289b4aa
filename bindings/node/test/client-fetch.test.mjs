// paceFetch with a dispatcher, and with another fetch than the built-in one.

import assert from 'node:assert/strict'
import { text } from 'node:stream/consumers'
import { test } from 'node:test'

import { paceFetch } from 'slidegate/client'

import { refusingOnce } from './support/refusing.mjs'

const echo = async (request) => `${request.method} ${await text(request)}`

const quick = { backoffFirstMs: 1, backoffMaxMs: 1 }

test('every attempt uses the dispatcher', async () => {
  await refusingOnce(echo, async (url, requests) => {
    let dispatched = 0
    const dispatcher = {
      dispatch(options, handler) {
        dispatched += 1
        return globalThis[Symbol.for('undici.globalDispatcher.1')].dispatch(options, handler)
      },
    }
    const fetch = paceFetch(quick)
    const response = await fetch(url, { method: 'PUT', body: 'a', dispatcher })
    assert.equal(await response.text(), 'PUT a')
    assert.deepEqual([requests(), dispatched], [2, 2])
    const body = new Blob(['b']).stream()
    const streamed = await fetch(url, { method: 'POST', body, duplex: 'half', dispatcher })
    assert.equal(await streamed.text(), 'POST b')
    assert.equal(dispatched, 3)
  })
})

test('another fetch is called with the arguments', async () => {
  await refusingOnce(echo, async (url) => {
    const calls = []
    const other = (input, init) => {
      calls.push([input, init])
      return fetch(input.url ?? input, init)
    }
    const scopes = []
    const scope = ({ href }, method) => {
      scopes.push([href, method])
      return 'one'
    }
    const paced = paceFetch({ ...quick, scope }, other)
    const init = { method: 'put', body: 'a', headers: { 'x-a': 'b' } }
    assert.equal(await (await paced(url, init)).text(), 'PUT a')
    assert.deepEqual(calls, [[url, init], [url, init]])
    assert.equal(await (await paced(new URL(url))).text(), 'GET ')
    // A request of another class.
    const request = { url, method: 'GET', headers: new Headers(), body: null }
    assert.equal(await (await paced(request)).text(), 'GET ')
    assert.equal(calls.at(-1)[0], request)
    assert.deepEqual(scopes, [[url, 'PUT'], [url, 'GET'], [url, 'GET']])
    await assert.rejects(paced(url, { signal: AbortSignal.abort() }), { name: 'AbortError' })
    assert.equal(calls.length, 4)
  })
})

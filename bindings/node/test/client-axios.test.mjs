// paceAxios with the interceptors, transforms and signals of axios.

import assert from 'node:assert/strict'
import { test } from 'node:test'

import axios from 'axios'

import { Pacer, paceAxios } from 'slidegate/client'

import { refusingOnce } from './support/refusing.mjs'
import { until } from './support/until.mjs'

const hello = () => JSON.stringify({ hello: 'world' })

const quick = () => new Pacer({ backoffFirstMs: 1, backoffMaxMs: 1, scopesMax: 1 })
const byPath = (url) => url.pathname

for (const order of ['before', 'after']) {
  test(`interceptors that are added ${order} paceAxios run once for a request that is retried`, async () => {
    await refusingOnce(hello, async (url, requests) => {
      const instance = axios.create()
      let runs = 0
      let transforms = 0
      const intercept = () => {
        instance.interceptors.request.use((config) => {
          runs += 1
          return config
        })
        instance.interceptors.response.use((response) => response.data)
      }
      if (order === 'before') intercept()
      const pacer = quick()
      paceAxios(instance, { pacer, scope: byPath })
      if (order === 'after') intercept()
      const transformRequest = [
        (data) => {
          transforms += 1
          return JSON.stringify(data)
        },
      ]
      assert.deepEqual(await instance.put(url, { a: 1 }, { transformRequest }), { hello: 'world' })
      assert.deepEqual([requests(), runs, transforms], [2, 1, 1])
      assert.deepEqual([pacer.stats().sent, pacer.stats().retries], [2, 1])
      // With one scope at most, this is refused unless the first scope has no request in flight.
      assert.deepEqual(await instance.get(`${url}other`), { hello: 'world' })
    })
  })
}

test('a request that an interceptor or a transform rejects is not in flight', async () => {
  await refusingOnce(hello, async (url) => {
    const instance = axios.create()
    instance.interceptors.request.use((config) => {
      if (config.url.endsWith('interceptor')) throw new Error('rejected')
      return config
    })
    const fail = () => {
      throw new Error('rejected')
    }
    paceAxios(instance, { pacer: quick(), scope: byPath })
    instance.interceptors.request.use((config) => config)
    await assert.rejects(instance.get(`${url}interceptor`), { message: 'rejected' })
    await assert.rejects(instance.post(`${url}transform`, {}, { transformRequest: [fail] }), { message: 'rejected' })
    await assert.rejects(instance.post(`${url}response`, {}, { transformResponse: [fail] }), { message: 'rejected' })
    assert.equal((await instance.get(url)).status, 200)
  })
})

test('a wait that is aborted is a cancellation of axios', async () => {
  await refusingOnce(hello, async (url, requests) => {
    const instance = axios.create()
    const pacer = new Pacer({ backoffFirstMs: 1_000_000, backoffMaxMs: 1_000_000, deadlineMs: 10_000_000 }, { random: () => 1 })
    paceAxios(instance, { pacer })
    const controller = new AbortController()
    const waiting = instance.get(url, { signal: controller.signal })
    waiting.catch(() => {})
    await until(() => pacer.stats().waiting === 1, 'the refused request waits')
    controller.abort()
    await assert.rejects(waiting, (error) => axios.isCancel(error) && error.code === 'ERR_CANCELED')
    assert.equal(requests(), 1)
  })
})

test('the configuration of responses and errors is that of the request', async () => {
  await refusingOnce(hello, async (url) => {
    const instance = axios.create({ headers: { common: { 'x-default': 'yes' } } })
    paceAxios(instance, { attemptsMax: 1 })
    const error = await instance.get(url, { own: 1 }).catch((error) => error)
    assert.equal(error.config.own, 1)
    assert.deepEqual(error.response.data, { hello: 'world' }, 'transformed')
    assert.equal(error.response.config, error.config)
    assert.equal(error.config.transformResponse.length > 0, true)
    const response = await instance.get(url)
    assert.equal(response.config.headers['x-default'], 'yes')
  })
})

/** An adapter for axios that paces, waits and retries. */

import { prepare, type ClientOptions } from './fetch.js'
import { repeatOf } from './pacer.js'

/** The parts of an instance of axios that are used. Its own types depend on its version. */
export interface AxiosLike {
  defaults: any
  create(config?: any): AxiosLike
  getUri(config: any): string
  request(config: any): Promise<any>
}

interface Config {
  method?: string
  signal?: AbortSignal
  data?: unknown
  headers?: unknown
}

interface Response {
  status: number
  headers: Record<string, unknown>
  data?: { destroy?: () => void; cancel?: () => Promise<void> } | null
  config: Config
}

/**
 * Paces the requests of an instance of axios. Returns a function that ends this.
 *
 * It wraps `axios.defaults.adapter`, so interceptors and transforms run once per request, however often it is
 * sent. A request with an `adapter` of its own is not paced.
 *
 * ```js
 * const api = axios.create({ baseURL: 'https://api.example.com' })
 * paceAxios(api)
 * ```
 */
export function paceAxios(axios: AxiosLike, options: ClientOptions = {}): () => void {
  const { pacer, scopeOf } = prepare(options)
  const { adapter } = axios.defaults
  // An instance without interceptors and defaults finds the adapter by its name, and calls it.
  const bare = axios.create()
  for (const name of Object.keys(bare.defaults)) delete bare.defaults[name]
  const send = (config: Config): Promise<Response> =>
    bare.request({ ...config, adapter, transformRequest: [], transformResponse: [] })

  const paced = async (config: Config): Promise<Response> => {
    const { method = 'get', signal, data } = config
    const ticket = pacer.ticket(scopeOf(new URL(bare.getUri(config), globalThis.location?.href), method))
    const repeat = repeatOf(method, hasIdempotencyKey(config.headers), !isStream(data))
    for (;;) {
      try {
        await pacer.acquire(ticket, signal)
      } catch (error) {
        // With an aborted signal, axios sends nothing and rejects with its own error.
        if (!signal?.aborted) throw error
      }
      const result = await settled(send(config))
      const { response } = result
      if (response === undefined) pacer.fail(ticket)
      else if (pacer.respond(ticket, response.status, (name) => response.headers[name] as string, repeat)) {
        // The connection is free only when a body that is a stream has been closed.
        response.data?.destroy?.()
        await response.data?.cancel?.()
        continue
      }
      // Interceptors see the configuration of the request, not that of an attempt.
      if (response !== undefined) response.config = config
      if (!('error' in result)) return result.response
      if (result.error instanceof Error && 'config' in result.error) result.error.config = config
      throw result.error
    }
  }
  axios.defaults.adapter = paced
  return () => {
    if (axios.defaults.adapter === paced) axios.defaults.adapter = adapter
  }
}

/** Returns the response, also that of an error. */
async function settled(sent: Promise<Response>): Promise<{ response: Response } | { response?: Response; error: unknown }> {
  try {
    return { response: await sent }
  } catch (error) {
    return { response: (error as { response?: Response } | undefined)?.response, error }
  }
}

function hasIdempotencyKey(headers: unknown): boolean {
  const names = Object.keys((headers ?? {}) as object)
  return names.some((name) => name.toLowerCase() === 'idempotency-key')
}

/** A stream can be read only once. */
function isStream(data: unknown): boolean {
  return typeof data === 'object' && data !== null && ('pipe' in data || 'getReader' in data)
}

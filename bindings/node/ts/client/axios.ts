/** Interceptors for axios that pace, wait and retry. */

import { prepare, type ClientOptions } from './fetch.js'
import { repeatOf, type Ticket } from './pacer.js'

/** The parts of a request that are read. Axios's own type has them. */
export interface AxiosConfig {
  method?: string
  signal?: unknown
  data?: unknown
  headers?: unknown
}

/** The parts of an instance of axios that are used. Its own types depend on its version. */
export interface AxiosLike {
  getUri(config: any): string
  request(config: any): Promise<any>
  interceptors: {
    request: { use(before: (config: any) => any): number; eject(id: number): void }
    response: { use(after: (response: any) => any, failed: (error: any) => any): number; eject(id: number): void }
  }
}

interface Response {
  status: number
  headers: Record<string, unknown>
  config: Config
}

type Config = AxiosConfig & { slidegate?: State; transformRequest?: unknown }

/** The state of a request, which axios passes on from attempt to attempt. */
class State {
  constructor(readonly ticket: Ticket) {}
}

/**
 * Adds interceptors to an instance of axios. Returns a function that removes them.
 *
 * ```js
 * const api = axios.create({ baseURL: 'https://api.example.com' })
 * paceAxios(api)
 * ```
 */
export function paceAxios(axios: AxiosLike, options: ClientOptions = {}): () => void {
  const { pacer, scopeOf } = prepare(options)

  const before = async (config: Config): Promise<Config> => {
    const url = new URL(axios.getUri(config), globalThis.location?.href)
    const { ticket } = (config.slidegate ??= new State(pacer.ticket(scopeOf(url, methodOf(config)))))
    await pacer.acquire(ticket, config.signal as AbortSignal | undefined)
    return config
  }

  /** Returns `true` if the request is sent again. */
  const responded = ({ status, headers, config }: Response): boolean => {
    if (config.slidegate === undefined) return false
    const fields = (name: string) => headers[name] as string | undefined
    const hasKey = hasIdempotencyKey(config.headers)
    return pacer.respond(config.slidegate.ticket, status, fields, repeatOf(methodOf(config), hasKey, !isStream(config.data)))
  }

  /** Sends a request again. Its data has been transformed already. */
  const again = (config: Config) => axios.request({ ...config, transformRequest: [(data: unknown) => data] })

  const request = axios.interceptors.request.use(before)
  const response = axios.interceptors.response.use(
    (response: Response) => (responded(response) ? again(response.config) : response),
    (error: unknown) => {
      const { response, config } = error as { response?: Response; config?: Config }
      if (response !== undefined && responded(response)) return again(response.config)
      if (response === undefined && config?.slidegate !== undefined) pacer.fail(config.slidegate.ticket)
      throw error
    },
  )
  return () => {
    axios.interceptors.request.eject(request)
    axios.interceptors.response.eject(response)
  }
}

function methodOf(config: Config): string {
  return config.method ?? 'get'
}

function hasIdempotencyKey(headers: unknown): boolean {
  const names = Object.keys((headers ?? {}) as object)
  return names.some((name) => name.toLowerCase() === 'idempotency-key')
}

/** A stream can be read only once. */
function isStream(data: unknown): boolean {
  return typeof data === 'object' && data !== null && ('pipe' in data || 'getReader' in data)
}

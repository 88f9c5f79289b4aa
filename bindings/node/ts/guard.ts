/**
 * What all frameworks have in common: keys of requests, the check, and the response.
 *
 * A framework's module translates its request into a `RequestView`, and the result into its response.
 */

import { clientAddress, type AddressOptions, type ClientAddress } from './address.js'
import type { Decision } from './decision.js'
import { guarded, SlidegateError, translate } from './errors.js'
import { decisions, Limiter, RedisLimiter, use, type AnyLimiter, type Columns } from './limiter.js'
import { native, type NativeAnswer, type NativeKeyHeader, type NativeTaken } from './native.js'
import { limitsOf } from './options.js'
import type { MemoryLimiterOptions, RedisLimiterOptions } from './policy.js'

type Maybe<T> = T | Promise<T>

/** One part of a key: the client's address, a header field, or a function. */
export type KeyPart<Req> = 'ip' | { header: string } | ((request: Req) => Maybe<string | null | undefined>)

/** One limit of a route. */
export interface Limit<Req> {
  /** The limiter, or options of a new one. */
  limiter: AnyLimiter | MemoryLimiterOptions | RedisLimiterOptions
  /** The key that requests are counted by: `ip` by default. Several parts form one key. */
  key?: KeyPart<Req> | KeyPart<Req>[]
  /**
   * The treatment of a request without a key: `ip`, the default, counts it by its address,
   * separately from all other keys; `skip` allows it; `deny` rejects it with 403,
   * if the policy is enforced for all keys.
   */
  missingKey?: 'ip' | 'skip' | 'deny'
  /**
   * The treatment of a request in which a header field of the key has several values, also one line with a comma:
   * `deny`, the default, rejects it with 403 like a missing key; `first` and `last` use that value.
   */
  duplicates?: 'deny' | 'first' | 'last'
  /** The number of units: 1 by default. */
  cost?: number | ((request: Req) => Maybe<number>)
  /** The tier of the key. */
  tier?: string | ((request: Req) => Maybe<string | undefined>)
}

/** The header fields and the body. */
export interface HttpOptions {
  /** The form of `RateLimit` and `RateLimit-Policy`: `list` by default. */
  ratelimit?: 'list' | 'dictionary' | 'triple' | 'off'
  /** The form of `X-RateLimit-Reset`: `delta` by default. */
  xRatelimit?: 'delta' | 'epoch' | 'off'
  retryAfter?: boolean
  /** The body of a denial: `problem` by default, which is `application/problem+json`. */
  body?: 'problem' | 'json'
}

/** What a middleware does. */
export interface GuardOptions<Req> extends Partial<Limit<Req>> {
  /** Several limits, all or nothing, instead of one. */
  limits?: Limit<Req>[]
  /** Requests for which it returns a truthy value are allowed without being counted. */
  skip?: (request: Req) => Maybe<boolean>
  /**
   * The responses that count: `failed` are those with a status of 400 or above. The units of others
   * are refunded after the response, unless the handler has settled or refunded them. `all` by default.
   */
  count?: 'all' | 'failed' | 'successful' | ((status: number, request: Req) => boolean)
  /** Header fields and body. */
  http?: HttpOptions
  /**
   * Receives an error that does not reach the framework: one of `count`, and in `node:http` every error of a check.
   * `console.error` by default.
   */
  onError?: (error: unknown, request: Req) => void
  /** How addresses are found and grouped. With `trustedProxies`, the framework's setting is not used. */
  address?: AddressOptions
}

/** The result of a check, which a framework's module makes a response of. */
export interface Checked {
  allowed: boolean
  /** One decision per limit. A request without a key has none. */
  decisions: Decision[]
  /** Names in lower case and values, in turn. */
  headers: string[]
  /** The response of a denial. */
  status: number
  contentType: string
  body: string
  /** Refunds the units if a response with this status does not count. */
  finish: ((status: number) => void) | undefined
}

/** How a framework's request is read. */
export interface RequestView<Req> {
  /** The client's address, as the framework determines it. */
  address(request: Req): string | undefined
  /** The address of the connection. */
  peer(request: Req): string | undefined
  headers(request: Req): Record<string, string | string[] | undefined>
  /** Names and values in turn, as the client sent them. */
  rawHeaders(request: Req): string[]
}

/** A header field that is a part of a key. Its name is in lower case. */
interface HeaderPart {
  name: string
  field: NativeKeyHeader
}

/** A part of a key. */
type Part<Req> = Exclude<KeyPart<Req>, { header: string }> | HeaderPart

interface Rule<Req> {
  limiter: AnyLimiter
  parts: Part<Req>[]
  missingKey: 'ip' | 'skip' | 'deny'
  cost: Limit<Req>['cost']
  tier: Limit<Req>['tier']
}

/** A request without a key, or with several, that is denied. */
const DENIED = Symbol('denied')
/** A request to which a limit does not apply. */
const SKIPPED = Symbol('skipped')

/** Starts the keys of requests without a key. Header fields cannot contain it. */
const FALLBACK = '\u0000ip\u0000'

export class Guard<Req> {
  private readonly rules: Rule<Req>[]
  private readonly http: InstanceType<typeof native.NativeHttp>
  private readonly addresses: ClientAddress
  private readonly trustsProxies: boolean

  constructor(
    private readonly options: GuardOptions<Req>,
    private readonly view: RequestView<Req>,
  ) {
    this.rules = rules(options)
    const mayRefund = (options.count ?? 'all') !== 'all'
    this.http = guarded(() => new native.NativeHttp(JSON.stringify(options.http ?? {}), mayRefund))
    this.addresses = clientAddress(options.address)
    this.trustsProxies = options.address?.trustedProxies !== undefined
  }

  /** Checks a request. Returns `null` if it is not limited. The result is a promise only if it has to be. */
  check(request: Req): Maybe<Checked | null> {
    const skipped = promised(this.options.skip?.(request))
    if (skipped instanceof Promise) {
      return skipped.then((skipped) => (skipped ? null : this.checkRules(request)))
    }
    return skipped ? null : this.checkRules(request)
  }

  /** Passes an error to `onError`. Never throws, because some callers are listeners of events. */
  report(error: unknown, request: Req): void {
    const onError: (error: unknown, request: Req) => unknown = this.options.onError ?? console.error
    try {
      Promise.resolve(onError(error, request)).catch(console.error)
    } catch (failure) {
      console.error(failure)
    }
  }

  private checkRules(request: Req): Maybe<Checked | null> {
    const resolved: Columns = { gates: [], keys: [], tiers: [], costs: [], names: [] }
    for (const [place, rule] of this.rules.entries()) {
      const added = this.resolve(request, rule, resolved)
      if (added === DENIED) return withoutKey(this.options.http?.body)
      if (added instanceof Promise) return this.resolveRest(request, place, added, resolved)
    }
    return this.ask(request, resolved)
  }

  private async resolveRest(
    request: Req,
    place: number,
    pending: Promise<symbol | undefined>,
    resolved: Columns,
  ): Promise<Checked | null> {
    let added: symbol | undefined = await pending
    for (const rule of this.rules.slice(place + 1)) {
      if (added === DENIED) break
      added = await this.resolve(request, rule, resolved)
    }
    return added === DENIED ? withoutKey(this.options.http?.body) : this.ask(request, resolved)
  }

  /** Adds the arguments of a rule. */
  private resolve(request: Req, rule: Rule<Req>, resolved: Columns): Maybe<symbol | undefined> {
    const key = this.key(request, rule)
    const cost = typeof rule.cost === 'function' ? promised(rule.cost(request)) : rule.cost
    const tier = typeof rule.tier === 'function' ? promised(rule.tier(request)) : rule.tier
    if (key instanceof Promise || cost instanceof Promise || tier instanceof Promise) {
      const all = Promise.all([key, cost, tier])
      return all.then(([key, cost, tier]) => add(resolved, rule.limiter, key, cost, tier))
    }
    return add(resolved, rule.limiter, key, cost, tier)
  }

  private key(request: Req, rule: Rule<Req>): Maybe<string | symbol> {
    const first = this.part(request, rule.parts[0] as Part<Req>)
    if (rule.parts.length === 1) {
      if (first instanceof Promise) return first.then((key) => this.orMissing(request, rule, key))
      return this.orMissing(request, rule, first)
    }
    const rest = rule.parts.slice(1).map((part) => this.part(request, part))
    const joined = (parts: Found[]) => {
      if (parts.includes(DENIED)) return this.orMissing(request, rule, DENIED)
      return this.orMissing(request, rule, parts.every((part) => part) ? join(parts as string[]) : undefined)
    }
    const parts = [first, ...rest]
    if (parts.some((part) => part instanceof Promise)) return Promise.all(parts).then(joined)
    return joined(parts as Found[])
  }

  private part(request: Req, part: Part<Req>): Maybe<Found> {
    if (part === 'ip') return this.address(request)
    if (typeof part === 'function') return promised(part(request))
    return part.field.value(this.lines(request, part.name)) ?? DENIED
  }

  /** Returns the lines of a header field. */
  private lines(request: Req, name: string): string[] {
    const value = this.view.headers(request)[name]
    if (value === undefined) return []
    // Node joins the lines of some fields, and drops all but the first line of others.
    const raw = this.view.rawHeaders(request)
    const lines = raw.filter((_, at) => at % 2 === 1 && raw[at - 1]?.toLowerCase() === name)
    // The program may have set another value.
    return lines.length > 1 ? lines : [value].flat()
  }

  private orMissing(request: Req, rule: Rule<Req>, key: Found): string | symbol {
    if (key === DENIED || (!key && rule.missingKey === 'deny')) {
      return rule.limiter.gate.denyWithoutKey() ? DENIED : SKIPPED
    }
    if (key) return key as string
    return rule.missingKey === 'skip' ? SKIPPED : FALLBACK + this.address(request)
  }

  /** Returns the key of the client's address. */
  private address(request: Req): string {
    const { view, addresses } = this
    const address = this.trustsProxies ? view.peer(request) : view.address(request)
    if (address === undefined) {
      const message = 'the request has no client address: the client has disconnected, or the server is not one of node:http'
      throw new SlidegateError('setting', message)
    }
    if (this.trustsProxies) return addresses.clientKey(address, view.headers(request))
    return addresses.key(address)
  }

  private ask(request: Req, resolved: Columns): Maybe<Checked | null> {
    if (resolved.gates.length === 0) return null
    const { gates, keys, tiers, costs } = resolved
    const trace = traceId(this.view.headers(request)['traceparent'])
    const answer = guarded(() => this.http.check(gates, keys, tiers, costs, trace))
    if (answer instanceof Promise) {
      return answer.then(
        (answer) => this.checked(request, answer, resolved),
        (error) => {
          throw translate(error)
        },
      )
    }
    return this.checked(request, answer, resolved)
  }

  private checked(request: Req, answer: NativeAnswer, resolved: Columns): Checked {
    const made = decisions(answer.decisions, resolved.keys, resolved.names)
    const allowed = answer.status === undefined
    return {
      allowed,
      decisions: made,
      headers: answer.headers,
      status: answer.status ?? 200,
      contentType: answer.contentType ?? '',
      body: answer.body ?? '',
      finish: answer.taken && this.finish(request, made, answer.taken),
    }
  }

  private finish(request: Req, made: Decision[], taken: NativeTaken): Checked['finish'] {
    const { count } = this.options
    return (status) => {
      // The response is already sent, so an error has no other place to go. Its units stay counted.
      try {
        const counts = typeof count === 'function' ? count(status, request) : status >= 400 === (count === 'failed')
        if (!counts) uncount(made, taken)
      } catch (error) {
        this.report(error, request)
      }
    }
  }
}

/** A part of a key, which may be missing or denied. */
type Found = string | symbol | null | undefined

/** Returns a promise also for other objects with `then`, such as the queries of many database libraries. */
function promised<T>(value: Maybe<T>): Maybe<T> {
  const isThenable = typeof (value as PromiseLike<T> | null | undefined)?.then === 'function'
  return isThenable ? Promise.resolve(value) : value
}

/** Refunds all units, except those that the handler has settled or refunded. */
function uncount(made: Decision[], taken: NativeTaken): void {
  const isUsed = made.map(({ receipt }) => receipt !== null && !use(receipt))
  // Units that cannot be refunded count until they expire, which never over-admits.
  guarded(() => taken.uncount(isUsed))?.catch(() => {})
}

function rules<Req>(options: GuardOptions<Req>): Rule<Req>[] {
  return limitsOf(options).map(({ limiter: from, key = 'ip', missingKey = 'ip', duplicates = 'deny', cost, tier }) => {
    const limiter = toLimiter(from)
    if (typeof tier === 'string') limiter.tierNumber(tier)
    const parts = ([key].flat() as KeyPart<Req>[]).map((part): Part<Req> => {
      if (typeof part !== 'object') return part
      const field = guarded(() => new native.NativeKeyHeader(part.header, duplicates))
      return { name: part.header.toLowerCase(), field }
    })
    return { limiter, parts, missingKey, cost, tier }
  })
}

function toLimiter(limiter: Limit<unknown>['limiter']): AnyLimiter {
  if ('gate' in limiter) return limiter
  return 'redis' in limiter ? new RedisLimiter(limiter) : new Limiter(limiter)
}

function add(
  resolved: Columns,
  limiter: AnyLimiter,
  key: string | symbol,
  cost: number | undefined,
  tier: string | undefined,
): symbol | undefined {
  if (typeof key === 'symbol') return key
  resolved.gates.push(limiter.gate)
  resolved.keys.push(key)
  resolved.tiers.push(limiter.tierNumber(tier))
  resolved.costs.push(cost ?? 1)
  resolved.names.push(tier)
  return undefined
}

/** Joins parts so that different lists of parts have different keys. */
function join(parts: string[]): string {
  return parts.map((part) => `${part.length}:${part}`).join('')
}

function traceId(traceparent: string | string[] | undefined): string | undefined {
  if (typeof traceparent !== 'string') return undefined
  return /^[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-/.exec(traceparent)?.[1]
}

const NO_KEY = 'the request has no key to be counted by, or several'

function withoutKey(form: HttpOptions['body']): Checked {
  const problem = { type: 'about:blank', title: 'Forbidden', status: 403, detail: NO_KEY }
  return {
    allowed: false,
    decisions: [],
    headers: ['cache-control', 'no-store'],
    status: 403,
    contentType: form === 'json' ? 'application/json' : 'application/problem+json',
    body: JSON.stringify(form === 'json' ? { error: 'no_key', message: NO_KEY } : problem),
    finish: undefined,
  }
}

/** The fields to which several limits of one response are appended. */
const LISTS = new Set(['ratelimit', 'ratelimit-policy'])

/**
 * Calls `set` for every field. If another middleware has already limited the request, lists are
 * appended to, and `X-RateLimit-*` stays that of the fewer remaining units.
 */
export function writeHeaders(
  checked: Checked,
  get: (name: string) => unknown,
  set: (name: string, value: string) => void,
): void {
  const { headers, allowed } = checked
  const before = get('x-ratelimit-remaining')
  const at = headers.indexOf('x-ratelimit-remaining')
  const keeps = allowed && before !== undefined && at >= 0 && Number(before) <= Number(headers[at + 1])
  for (let at = 0; at + 1 < headers.length; at += 2) {
    const [name, value] = [headers[at] as string, headers[at + 1] as string]
    const known = LISTS.has(name) ? get(name) : undefined
    if (typeof known === 'string') set(name, `${known}, ${value}`)
    else if (!(keeps && name.startsWith('x-ratelimit-'))) set(name, value)
  }
}

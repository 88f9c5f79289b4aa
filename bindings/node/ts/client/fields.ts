/** Reads the rate limit fields of responses. */

/** A quota that a server advertises. */
export interface AdvertisedQuota {
  /** The name of the policy, in newer forms. */
  name?: string
  limit?: number
  remaining?: number
  /** Milliseconds until more units become available. */
  resetAfterMs?: number
  windowMs?: number
}

/** What a response says about limits. */
export interface AdvertisedLimits {
  quotas: AdvertisedQuota[]
  /** Milliseconds to wait before the next request. */
  retryAfterMs?: number
}

/** Returns the value of a field, several lines joined by commas. */
export type Fields = (name: string) => string | null | undefined

/** The longest wait: ten years. */
const WAIT_MAX_MS = 10 * 366 * 86_400_000
/** Longer fields are ignored. */
const FIELD_MAX = 8192
const QUOTAS_MAX = 8
/** Numbers from this one on are times since the epoch: as a delay, they would be 31 years. */
const TIMES_FROM = 1e9

/** Reads the fields of a response that arrived at `nowMs`, the client's time since the epoch. */
export function readLimits(fields: Fields, nowMs: number): AdvertisedLimits {
  const get = (name: string) => {
    const value = fields(name)
    return value != null && value.length <= FIELD_MAX ? value : ''
  }
  // Dates are measured by the server's clock, because the local clock may be wrong.
  const date = Date.parse(get('date'))
  const now = Number.isNaN(date) ? nowMs : date
  const retryAfterMs = parseWait(get('retry-after'), now)
  // The quotas of a cached response are those of another time or client.
  if (Number(get('age')) > 0) return { quotas: [], retryAfterMs }
  const quotas = status(get, now)
  join(quotas, policies(get))
  return { quotas: quotas.slice(0, QUOTAS_MAX), retryAfterMs }
}

/** Returns the wait before the next request: `Retry-After`, or until every used-up quota has units. */
export function waitOf({ quotas, retryAfterMs }: AdvertisedLimits): number {
  const resets = quotas.filter((quota) => quota.remaining === 0).map((quota) => quota.resetAfterMs ?? 0)
  return retryAfterMs ?? Math.max(0, ...resets)
}

/** Parses seconds from now, a time since the epoch in seconds or a smaller unit, or a date. */
export function parseWait(text: string, nowMs: number): number | undefined {
  const number = /^\s*([+-]?\d+(?:\.\d+)?)\s*$/.exec(text)
  let wait
  if (number !== null) {
    const value = Number(number[1])
    wait = value < TIMES_FROM ? value * 1000 : epochMs(value) - nowMs
  } else {
    // `Date.parse` accepts a lot: a date of HTTP starts with a weekday.
    if (!/^\s*(mon|tue|wed|thu|fri|sat|sun)/i.test(text)) return undefined
    wait = Date.parse(text) - nowMs
  }
  if (Number.isNaN(wait)) return undefined
  return Math.min(Math.max(0, Math.ceil(wait)), WAIT_MAX_MS)
}

/** Returns a time since the epoch in milliseconds. Its size determines the unit. */
function epochMs(value: number): number {
  if (value >= 1e18) return value / 1e6
  if (value >= 1e15) return value / 1e3
  return value >= 1e12 ? value : value * 1000
}

/** Returns the quotas of the first family of fields that has any. */
function status(get: (name: string) => string, now: number): AdvertisedQuota[] {
  const text = get('ratelimit')
  const listed = members(text).filter(({ name, parameters }) => name !== undefined && parameters.size > 0)
  if (listed.length > 0) {
    return listed.map(({ name, parameters }) => ({
      name,
      remaining: integer(parameters.get('r')),
      resetAfterMs: seconds(parameters.get('t')),
    }))
  }
  const entries = new Map<string, string>()
  for (const entry of text.split(',')) {
    const [key = '', value = ''] = entry.trim().split('=', 2)
    entries.set(key, value)
  }
  const dictionary = withStatus({
    limit: integer(entries.get('limit')),
    remaining: integer(entries.get('remaining')),
    resetAfterMs: seconds(entries.get('reset')),
  })
  if (dictionary !== undefined) return [dictionary]
  for (const [family, resets] of FAMILIES) {
    const limit = smallest(get(`${family}-limit`))
    const remaining = smallest(get(`${family}-remaining`))
    const reset = resets.map((name) => parseWait(get(name), now)).find((wait) => wait !== undefined)
    const quota = withStatus({
      limit: limit !== undefined && limit >= 0 ? limit : undefined,
      // Below zero is over the limit. Without a limit, it may mean "unlimited".
      remaining: remaining !== undefined && remaining < 0 ? (limit === undefined ? undefined : 0) : remaining,
      resetAfterMs: reset,
    })
    if (quota !== undefined) return [quota]
  }
  return []
}

/** Prefixes of fields, and the fields of their resets. The first one that can be read is used. */
const FAMILIES: [string, string[]][] = [
  ['ratelimit', ['ratelimit-reset']],
  ['x-ratelimit', ['x-ratelimit-reset-after', 'x-ratelimit-reset']],
  ['x-rate-limit', ['x-rate-limit-reset']],
]

/** Returns the policies of `RateLimit-Policy`, or those that older drafts and Envoy add to the limit. */
function policies(get: (name: string) => string): AdvertisedQuota[] {
  for (const field of ['ratelimit-policy', 'ratelimit-limit', 'x-ratelimit-limit']) {
    const found: AdvertisedQuota[] = []
    for (const { name, number, parameters } of members(get(field))) {
      const limit = name === undefined ? number : integer(parameters.get('q'))
      const windowMs = seconds(parameters.get('w'))
      if (limit === undefined || (windowMs === undefined && field !== 'ratelimit-policy')) continue
      found.push({ name: name ?? parameters.get('name'), limit, windowMs: windowMs || undefined })
    }
    if (found.length > 0) return found
  }
  return []
}

/** Adds each policy to its quota. A policy without one becomes a quota. */
function join(quotas: AdvertisedQuota[], policies: AdvertisedQuota[]): void {
  const withStatus = quotas.slice()
  for (const policy of policies) {
    const isOnly = policies.filter((other) => other.limit === policy.limit).length === 1
    const quota = withStatus.find((quota) =>
      quota.name !== undefined && policy.name !== undefined
        ? quota.name === policy.name
        : isOnly && quota.windowMs === undefined && quota.limit === policy.limit,
    )
    if (quota === undefined) quotas.push(policy)
    else {
      quota.limit ??= policy.limit
      quota.windowMs ??= policy.windowMs
      quota.name ??= policy.name
    }
  }
}

/** A member of a structured list: `"api";q=100;w=60` or `100;w=60`. */
interface Member {
  name?: string
  number?: number
  parameters: Map<string, string>
}

function members(text: string): Member[] {
  const list: Member[] = []
  for (const part of split(text, ',')) {
    const [head = '', ...rest] = split(part, ';')
    const parameters = new Map<string, string>()
    for (const parameter of rest) {
      const [key = '', value = ''] = split(parameter, '=')
      parameters.set(key, unquote(value))
    }
    if (/^-?\d+$/.test(head)) list.push({ number: integer(head), parameters })
    else if (/^("[^"]*"|[A-Za-z*][\w!#$%&'*+.^`|~:/-]*)$/.test(head)) list.push({ name: unquote(head), parameters })
  }
  return list
}

/** Splits at a character that is not in a string. */
function split(text: string, at: string): string[] {
  const parts: string[] = []
  let part = ''
  let quoted = false
  for (const character of text) {
    if (character === '"') quoted = !quoted
    if (character === at && !quoted) {
      parts.push(part.trim())
      part = ''
    } else part += character
  }
  if (part.trim() !== '') parts.push(part.trim())
  return parts
}

function unquote(text: string): string {
  return text.startsWith('"') && text.endsWith('"') ? text.slice(1, -1) : text
}

function integer(text: string | undefined): number | undefined {
  return text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : undefined
}

function seconds(text: string | undefined): number | undefined {
  const seconds = integer(text)
  return seconds === undefined ? undefined : Math.min(seconds * 1000, WAIT_MAX_MS)
}

/** Returns the smallest number of a field. One with parameters is a policy. */
function smallest(text: string): number | undefined {
  const numbers = text.split(',').filter((part) => /^\s*[+-]?\d+(\.\d+)?\s*$/.test(part))
  return numbers.length === 0 ? undefined : Math.min(...numbers.map((part) => Math.trunc(Number(part))))
}

function withStatus(quota: AdvertisedQuota): AdvertisedQuota | undefined {
  const { limit, remaining, resetAfterMs } = quota
  return limit === undefined && remaining === undefined && resetAfterMs === undefined ? undefined : quota
}

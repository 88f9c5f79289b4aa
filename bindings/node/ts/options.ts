/** Validates the options of middleware at the start, because most of them are used only by a request. */

import { inspect } from 'node:util'

import { SlidegateError } from './errors.js'
import type { GuardOptions, Limit } from './guard.js'

const LIMIT = ['limiter', 'key', 'missingKey', 'duplicates', 'cost', 'tier']
const MIDDLEWARE = [...LIMIT, 'limits', 'skip', 'count', 'onDenied', 'onError', 'http', 'address']
const ADDRESS = ['trustedProxies', 'header', 'ipv4Prefix', 'ipv6Prefix']
const MISSING_KEY = ['ip', 'skip', 'deny']
const DUPLICATES = ['deny', 'first', 'last']
const COUNT = ['all', 'failed', 'successful']
/** The maximum number of limits that are decided together, as in `slidegate_gate::ASKS_MAX`. */
const LIMITS_MAX = 64

/** Returns the limits of a middleware. Throws a `SlidegateError` if an option is unknown or invalid. */
export function limitsOf<Req>(options: GuardOptions<Req>): Limit<Req>[] {
  checkNames(options, 'a middleware', MIDDLEWARE)
  const { limiter, limits, key, missingKey, duplicates, cost, tier, skip, count, onError } = options
  checkFunction('skip', skip)
  checkFunction('onError', onError)
  checkFunction('onDenied', (options as { onDenied?: unknown }).onDenied)
  if (typeof count !== 'function') checkWord('count', count, COUNT, 'a function')
  if ((limiter === undefined) === (limits === undefined)) {
    return invalid('a middleware has one of `limiter` and `limits`')
  }
  if (limits === undefined) {
    const limit = { limiter, key, missingKey, duplicates, cost, tier } as Limit<Req>
    checkLimit(limit)
    return [limit]
  }
  const misplaced = LIMIT.find((name) => options[name as keyof typeof options] !== undefined)
  if (misplaced !== undefined) invalid(`\`${misplaced}\` has no effect next to \`limits\`: set it in each of them`)
  if (!Array.isArray(limits) || limits.length < 1 || limits.length > LIMITS_MAX) {
    invalid(`\`limits\` is ${show(limits)}: use a list of 1 to ${LIMITS_MAX} limits`)
  }
  for (const limit of limits) {
    checkNames(limit, 'one of `limits`', LIMIT)
    checkLimit(limit)
  }
  return limits
}

function checkLimit<Req>({ limiter, key, missingKey, duplicates, cost, tier }: Limit<Req>): void {
  if (typeof limiter !== 'object' || limiter === null) {
    invalid(`\`limiter\` is ${show(limiter)}: use a Limiter, a RedisLimiter or the options of one`)
  }
  const parts: unknown[] = Array.isArray(key) ? key : [key ?? 'ip']
  if (parts.length === 0 || !parts.every(isKeyPart)) {
    invalid(`\`key\` is ${show(key)}: use 'ip', { header: 'name' }, a function, or a list of these`)
  }
  checkWord('missingKey', missingKey, MISSING_KEY)
  checkWord('duplicates', duplicates, DUPLICATES)
  if (duplicates !== undefined && !parts.some((part) => typeof part === 'object')) {
    invalid('`duplicates` has no effect without a `header` in `key`')
  }
  const isCost = cost === undefined || typeof cost === 'function' || (Number.isSafeInteger(cost) && cost >= 1)
  if (!isCost) invalid(`\`cost\` is ${show(cost)}: use an integer of at least 1, or a function`)
  if (tier !== undefined && typeof tier !== 'function' && typeof tier !== 'string') {
    invalid(`\`tier\` is ${show(tier)}: use the name of a tier, or a function`)
  }
}

function isKeyPart(part: unknown): boolean {
  if (typeof part !== 'object' || part === null) return part === 'ip' || typeof part === 'function'
  const { header } = part as { header?: unknown }
  return Object.keys(part).length === 1 && typeof header === 'string' && header !== ''
}

function checkNames(options: unknown, what: string, names: string[]): void {
  if (typeof options !== 'object' || options === null) invalid(`${what} is ${show(options)}: use an object`)
  const unknown = Object.keys(options as object).find((name) => !names.includes(name))
  if (unknown === undefined) return
  const fix = ADDRESS.includes(unknown) ? `set it in \`address\`` : `use ${names.join(', ')}`
  invalid(`${what} has no option \`${unknown}\`: ${fix}`)
}

function checkFunction(name: string, value: unknown): void {
  if (value !== undefined && typeof value !== 'function') invalid(`\`${name}\` is ${show(value)}: use a function`)
}

function checkWord(name: string, value: unknown, words: string[], other?: string): void {
  if (value === undefined || words.includes(value as string)) return
  const allowed = words.map((word) => `'${word}'`)
  if (other !== undefined) allowed.push(other)
  invalid(`\`${name}\` is ${show(value)}: use ${allowed.slice(0, -1).join(', ')} or ${allowed.at(-1)}`)
}

function show(value: unknown): string {
  return inspect(value, { depth: 0, breakLength: Number.POSITIVE_INFINITY, maxStringLength: 100, maxArrayLength: 10 })
}

function invalid(message: string): never {
  throw new SlidegateError('setting', message)
}

/** The settings of a client. Times are in milliseconds. */

export interface Settings {
  /** Whether requests wait before an advertised quota is used up: on by default. */
  pacing: boolean
  /** The percentage of a limit of 20 or more that is kept in reserve: 5 by default. */
  reservePercent: number
  /** How long requests to a new scope wait for its first response: 1000 by default. */
  learnFirstMs: number
  /** The maximum total wait of a request: 120,000 by default. */
  deadlineMs: number
  /** The maximum number of attempts: 5 by default. */
  attemptsMax: number
  /** Whether a 429 is retried with any method, because it was not handled: on by default. */
  repeatRefused: boolean
  /** The maximum wait after a first refusal without a time, doubled with each attempt: 500. */
  backoffFirstMs: number
  /** The maximum of that: 30,000. */
  backoffMaxMs: number
  /** Random time added to the time that a server requests: 10 %, at most 5000. */
  jitterPercent: number
  jitterMaxMs: number
  /** The longest wait that a server can request: 24 hours. */
  holdMaxMs: number
  /** Retries: 10 % of the requests, at least 10 per minute. */
  budgetPercent: number
  budgetFloor: number
  /** 1000 429s in ten minutes stop a scope for ten minutes. */
  refusalsMax: number
  refusalsWindowMs: number
  /** The maximum number of scopes in memory: 256. */
  scopesMax: number
  /** The maximum number of requests that wait at the same time: 1024. */
  waitersMax: number
}

export const DEFAULTS: Settings = {
  pacing: true,
  reservePercent: 5,
  learnFirstMs: 1000,
  deadlineMs: 120_000,
  attemptsMax: 5,
  repeatRefused: true,
  backoffFirstMs: 500,
  backoffMaxMs: 30_000,
  jitterPercent: 10,
  jitterMaxMs: 5000,
  holdMaxMs: 86_400_000,
  budgetPercent: 10,
  budgetFloor: 10,
  refusalsMax: 1000,
  refusalsWindowMs: 600_000,
  scopesMax: 256,
  waitersMax: 1024,
}

/** Returns the settings with the defaults. Throws a `RangeError` for one that is out of range. */
export function settingsOf(options: Partial<Settings>): Settings {
  const settings = { ...DEFAULTS }
  for (const [name, value] of Object.entries(options)) {
    if (!(name in DEFAULTS)) throw new RangeError(`unknown setting ${name}`)
    if (value === undefined) continue
    const isBoolean = typeof DEFAULTS[name as keyof Settings] === 'boolean'
    const isValid = isBoolean ? typeof value === 'boolean' : Number.isFinite(value) && Number(value) >= 0
    if (!isValid) throw new RangeError(`${name} is ${value}: use a ${isBoolean ? 'boolean' : 'number of 0 or more'}`)
    Object.assign(settings, { [name]: value })
  }
  if (settings.attemptsMax < 1) throw new RangeError('attemptsMax is below 1')
  if (settings.reservePercent > 90) throw new RangeError('reservePercent is above 90')
  return settings
}

/** Why a request was not sent. */
export type PacingErrorCode = 'deadline' | 'stopped' | 'waiters' | 'scopes'

/** A request that was not sent. */
export class PacingError extends Error {
  readonly code: PacingErrorCode
  /** The time after which a request could be sent, if it is known. */
  readonly waitMs: number | undefined

  constructor(code: PacingErrorCode, message: string, waitMs?: number) {
    super(message)
    this.name = 'PacingError'
    this.code = code
    this.waitMs = waitMs
  }
}

/** Clients that pace, wait and retry. They run in browsers and in Node, without native code. */

export { paceAxios, type AxiosLike } from './axios.js'
export { paceFetch, type ClientOptions } from './fetch.js'
export { parseWait, readLimits, type AdvertisedLimits, type AdvertisedQuota } from './fields.js'
export { Pacer, type Environment, type PacerStats } from './pacer.js'
export { PacingError, type PacingErrorCode, type Settings } from './settings.js'

// The same for CommonJS.

import slidegate = require('slidegate')
import client = require('slidegate/client')
import middleware = require('slidegate/express')

const limiter: slidegate.Limiter = new slidegate.Limiter({ quotas: '1/minute', algorithm: { segments: 60 } })
const fetch: typeof globalThis.fetch = client.paceFetch()
export = { fetch, middleware: middleware.rateLimit({ limiter }) }

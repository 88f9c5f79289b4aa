// An Express service that allows five requests per minute and address: see README.md.

import express from 'express'
import { rateLimit } from 'slidegate/express'

const app = express()
app.use(rateLimit({ limiter: { name: 'address', quotas: '5/minute' } }))
app.get('/', (request, response) => response.send('hello\n'))

const server = app.listen(Number(process.env.PORT ?? 3000), '127.0.0.1', () => {
  console.log(`http://127.0.0.1:${server.address().port}/`)
})

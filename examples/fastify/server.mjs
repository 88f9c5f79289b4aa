// A Fastify service that allows five requests per minute and address: see README.md.

import fastify from 'fastify'
import { slidegate } from 'slidegate/fastify'

const app = fastify()
await app.register(slidegate, { limiter: { name: 'address', quotas: '5/minute' } })
app.get('/', async () => 'hello\n')

console.log(`${await app.listen({ host: '127.0.0.1', port: Number(process.env.PORT ?? 3000) })}/`)

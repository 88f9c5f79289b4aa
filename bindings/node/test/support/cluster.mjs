// Three processes of node:cluster that share a port and a limit of 25 in Redis.

import cluster from 'node:cluster'

import express from 'express'

import { RedisLimiter } from 'slidegate'
import { rateLimit } from 'slidegate/express'

if (cluster.isPrimary) {
  const workers = [1, 2, 3].map(() => cluster.fork())
  let listening = 0
  cluster.on('listening', (_, { port }) => {
    listening += 1
    if (listening === workers.length) process.send(port)
  })
  process.once('disconnect', () => {
    for (const worker of workers) worker.kill()
  })
} else {
  const url = process.argv[2]
  const redis = { redis: url, deadline: '10s', connectDeadline: '10s' }
  const limiter = new RedisLimiter({ name: 'cluster', quotas: '25/hour', redis })
  const app = express()
  app.use(rateLimit({ limiter, key: () => 'all' }))
  app.get('/', (_, response) => response.send(`worker ${process.pid}`))
  app.listen(0, '127.0.0.1')
}

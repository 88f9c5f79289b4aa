// A server that refuses the first request.

import { once } from 'node:events'
import { createServer } from 'node:http'

/** Calls `use` with the URL and the number of requests so far. `body` is called with each request. */
export async function refusingOnce(body, use) {
  let requests = 0
  const server = createServer(async (request, response) => {
    requests += 1
    response.statusCode = requests === 1 ? 429 : 200
    response.end(await body(request))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  try {
    await use(`http://127.0.0.1:${server.address().port}/`, () => requests)
  } finally {
    server.close()
    server.closeAllConnections()
  }
}

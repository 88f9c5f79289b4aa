// A real redis-server on a free port of the loopback interface.

import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { until } from './until.mjs'

export async function startRedis(port) {
  const folder = mkdtempSync(join(tmpdir(), 'slidegate-node-'))
  const server = { port: port ?? (await freePort()) }
  const args = ['--port', server.port, '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no', '--dir', folder]
  const child = spawn('redis-server', args.map(String), { stdio: 'ignore' })
  const ended = new Promise((resolve) => child.once('exit', resolve))
  await until(() => replies(server.port), `redis-server on port ${server.port}`)
  return {
    ...server,
    url: `redis://127.0.0.1:${server.port}`,
    async stop() {
      child.kill('SIGKILL')
      await ended
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

function freePort() {
  return new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address()
      server.close(() => resolve(port))
    })
  })
}

/** Returns `true` if a server replies to PING. */
function replies(port) {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => socket.write('PING\r\n'))
    socket.setTimeout(1000, () => socket.destroy())
    socket.once('data', (data) => {
      resolve(data.toString().startsWith('+PONG'))
      socket.destroy()
    })
    socket.once('error', () => resolve(false))
    socket.once('close', () => resolve(false))
  })
}

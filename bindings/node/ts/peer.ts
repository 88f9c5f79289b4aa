/** The other end of a connection. */

import type { Socket } from 'node:net'

/**
 * Returns the address of the client of a connection: `127.0.0.1` on a unix socket, `undefined` if the client
 * has disconnected, or if the object is no socket of Node.
 */
export function peerOf(socket: Socket): string | undefined {
  const { remoteAddress, localAddress, destroyed } = socket
  // A connection that was reset still has its local address. A unix socket has none, but the property, which
  // objects of serverless adapters lack.
  const isUnix = !destroyed && localAddress === undefined && 'localAddress' in socket
  return remoteAddress ?? (isUnix ? '127.0.0.1' : undefined)
}

/** Returns whether the client of a connection has disconnected. */
export function isDisconnected(socket: Socket): boolean {
  return 'localAddress' in socket && peerOf(socket) === undefined
}

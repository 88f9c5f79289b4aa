/** The other end of a connection. */

import type { Socket } from 'node:net'

/**
 * Returns the address of the client of a connection: `127.0.0.1` on a unix socket, `undefined` if the client
 * has disconnected.
 */
export function peerOf(socket: Socket): string | undefined {
  const { remoteAddress, localAddress, destroyed } = socket
  // A connection that was reset still has its local address. A unix socket has none.
  return remoteAddress ?? (destroyed || localAddress !== undefined ? undefined : '127.0.0.1')
}

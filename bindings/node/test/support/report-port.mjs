// Preloaded into an example: sends the port of every server of `node:http` to the parent process.

import { Server } from 'node:http'

const { listen } = Server.prototype
Server.prototype.listen = function (...args) {
  this.once('listening', () => process.send(this.address().port))
  return listen.apply(this, args)
}

/** Keys of client addresses. */

import { guarded } from './errors.js'
import { native } from './native.js'

/** How addresses are found and grouped. */
export interface AddressOptions {
  /** The networks of the proxies that are trusted, such as `10.0.0.0/8`. None by default. */
  trustedProxies?: string[]
  /** The field that they write: `x-forwarded-for` by default, `forwarded`, or one such as `x-real-ip`. */
  header?: string
  /** Bits of an IPv4 address that count: 32 by default. */
  ipv4Prefix?: number
  /** Bits of an IPv6 address that count: 64 by default, because a client usually has a whole /64. */
  ipv6Prefix?: number
}

/** Finds the key of a client's address. */
export interface ClientAddress {
  /** Returns the key of an address that the framework found: `192.0.2.7`, `2001:db8::/64`. A port or a zone is removed. */
  key(address: string): string
  /** Returns the key of the client behind a peer, by `trustedProxies`. */
  clientKey(peer: string, headers: Record<string, string | string[] | undefined>): string
}

const FIELDS = ['x-forwarded-for', 'forwarded']

/** Returns the rules for keys of addresses. */
export function clientAddress(options: AddressOptions = {}): ClientAddress {
  const rules = guarded(() => new native.NativeAddress(JSON.stringify(options)))
  const names = options.header === undefined ? FIELDS : [options.header.toLowerCase()]
  return {
    key: (address) => guarded(() => rules.key(address)),
    clientKey: (peer, headers) => {
      const fields: string[] = []
      for (const name of names) {
        for (const line of [headers[name] ?? []].flat()) fields.push(name, line)
      }
      return guarded(() => rules.clientKey(peer, fields))
    },
  }
}

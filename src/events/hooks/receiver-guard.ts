/**
 * Keeps webhooks from private addresses. The address is checked where the connection is made, so a
 * name that changes in between gains nothing.
 */

import { lookup } from 'node:dns'
import { isIP } from 'node:net'
import { createAddressPolicy } from '../../../workers/address-policy.ts'
import type { ReceiverGuard } from '../http-post.ts'

/** Loopback, private and link-local networks, and the metadata services of clouds. */
const PRIVATE = [
  '127.0.0.0/8',
  '10.0.0.0/8',
  '172.16.0.0/12',
  '192.168.0.0/16',
  '100.64.0.0/10',
  '169.254.0.0/16',
  '::1/128',
  'fe80::/10',
  'fc00::/7',
  '168.63.129.16/32',
  '192.0.0.0/24',
  '198.18.0.0/15',
]

/** @param blocked the error for an address that is not permitted */
export function receiverGuard(allowPrivate: boolean, blocked: () => Error): ReceiverGuard {
  const policy = createAddressPolicy(allowPrivate ? [] : PRIVATE)
  return {
    check({ hostname }) {
      const literal = hostname.replace(/^\[|\]$/g, '')
      if (isIP(literal) !== 0 && policy.isBlocked(literal)) throw blocked()
    },
    lookup(host, options, callback) {
      lookup(host, { ...options, all: true }, (error, found) => {
        if (error) return callback(error, [])
        const allowed = found.filter(({ address }) => !policy.isBlocked(address))
        const [first] = allowed
        if (!first) return callback(blocked(), [])
        if (options.all) callback(null, allowed)
        else callback(null, first.address, first.family)
      })
    },
  }
}

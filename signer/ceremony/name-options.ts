/** The options of `sign-request` that say which names an issuer may certify (RFC 5280 §4.2.1.10). */

import {
  type NameConstraints,
  NO_SUBTREES,
  parseNetwork,
  type Subtrees,
} from '../../src/shared/pki/name-constraints.ts'
import { DOMAIN } from '../subtrees.ts'

export interface NameOptions {
  'permit-dns': readonly string[]
  'permit-ip': readonly string[]
  'exclude-dns': readonly string[]
  'exclude-ip': readonly string[]
}

/** @returns undefined where nothing is limited. @throws Error in one sentence */
export function readConstraints(options: NameOptions): NameConstraints | undefined {
  const permitted = readSubtrees('permit', options['permit-dns'], options['permit-ip'])
  const excluded = readSubtrees('exclude', options['exclude-dns'], options['exclude-ip'])
  return permitted === NO_SUBTREES && excluded === NO_SUBTREES ? undefined : { permitted, excluded }
}

function readSubtrees(option: string, dns: readonly string[], ip: readonly string[]): Subtrees {
  if (dns.length + ip.length === 0) return NO_SUBTREES
  const wrong = dns.find((name) => !DOMAIN.test(name))
  if (wrong !== undefined)
    throw new Error(`--${option}-dns ${wrong}: must be a lower-case domain without a leading dot or *`)
  const networks = ip.map((text) => {
    const network = parseNetwork(text)
    if (network) return network
    throw new Error(`--${option}-ip ${text}: must be a network such as 10.0.0.0/8 or 2001:db8::/32`)
  })
  const listed = <T>(all: readonly T[]) => (all.length > 0 ? all : undefined)
  return { ...NO_SUBTREES, dns: listed(dns), ip: listed(networks) }
}

/** The subtrees of a policy, in the form of name constraints (RFC 5280 §4.2.1.10). Pure. */

import {
  type IpNetwork,
  type NameConstraints,
  NO_SUBTREES,
  parseNetwork,
  type Subtrees,
} from '../src/shared/pki/name-constraints.ts'

/** The name of a subtree, in lower case. */
export const DOMAIN = /^([a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*$/

/** The form of the configuration; networks as `10.0.0.0/8`. */
interface ListedSubtrees {
  dns?: readonly string[] | undefined
  ip?: readonly string[] | undefined
}

export function configuredConstraints(policy: {
  permitted: ListedSubtrees
  excluded: ListedSubtrees
}): NameConstraints {
  return { permitted: subtreesOf(policy.permitted), excluded: subtreesOf(policy.excluded) }
}

const subtreesOf = ({ dns, ip }: ListedSubtrees): Subtrees => ({ ...NO_SUBTREES, dns, ip: ip?.flatMap(networksOf) })

/** A network of IPv4 holds the same addresses in IPv6 (RFC 4291 §2.5.5.2), which reach the same hosts. */
function networksOf(text: string): IpNetwork[] {
  const network = parseNetwork(text)
  if (!network) throw new Error(`${text} is no network`)
  return network.address.length === 4 ? [network, mapped(network)] : [network]
}

const MAPPED_PREFIX = Buffer.from('00000000000000000000ffff', 'hex')

function mapped({ address, mask }: IpNetwork): IpNetwork {
  return {
    address: Buffer.concat([MAPPED_PREFIX, address]),
    mask: Buffer.concat([Buffer.alloc(MAPPED_PREFIX.length, 0xff), mask]),
  }
}

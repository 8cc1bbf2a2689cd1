/** Challenges from this host: which addresses and ports of clients' hosts they reach. */

import { createAddressPolicy } from '../../../workers/address-policy.ts'
import { isIpAddress } from '../../shared/lib/host.ts'
import type { Check } from '../check.ts'
import { askNameServer } from '../facts/dns.ts'
import { connectTo } from '../facts/reach.ts'
import type { Sources } from '../sources.ts'
import { CannotTell, failure, ok, orOk, unknown, warning } from '../verdict.ts'
import { serversOf } from './resolvers.ts'

const CONNECT_MS = 5_000

export const CHALLENGES: readonly Check[] = [
  {
    id: 'challenges.blocked',
    title: 'The addresses that clients have are not blocked, and those of this host are',
    async look(sources) {
      const { http01, tlsalpn01, enabled } = sources.config.challenges
      const used = [
        ...(enabled.includes('http-01') ? (['http01'] as const) : []),
        ...(enabled.includes('tls-alpn-01') ? (['tlsalpn01'] as const) : []),
      ]
      if (used.length === 0) return undefined
      const networks = { http01: http01.blocked_networks, tlsalpn01: tlsalpn01.blocked_networks }
      const open = used.filter((section) => !createAddressPolicy(networks[section]).isBlocked('127.0.0.1'))
      const { target } = sources.options
      const addresses = target === undefined ? [] : await addressesOf(sources, target)
      return orOk(
        [
          ...open.map((section) =>
            warning(
              `challenges.${section}.blocked_networks leaves out 127.0.0.0/8: a client whose name leads there lets the service ask this host`,
              'add 127.0.0.0/8 and ::1/128, or leave the key out',
            ),
          ),
          ...used.flatMap((section) =>
            addresses
              .filter((address) => createAddressPolicy(networks[section]).isBlocked(address))
              .map((address) =>
                failure(
                  `${target} has the address ${address}, which challenges.${section}.blocked_networks forbids`,
                  'take its network out of the list, where clients live there',
                ),
              ),
          ),
        ],
        `${networks[used[0]!].length} networks are blocked`,
      )
    },
  },
  onPort('http-port', 'http-01', 'http01'),
  onPort('tls-port', 'tls-alpn-01', 'tlsalpn01'),
]

async function addressesOf(sources: Sources, name: string): Promise<string[]> {
  if (isIpAddress(name)) return [name]
  const [server] = serversOf(sources.config)
  const asked = await Promise.all([askNameServer(server!, name, 'A'), askNameServer(server!, name, 'AAAA')])
  const addresses = asked
    .flatMap(({ response }) => response?.answers ?? [])
    .flatMap((one) => ('record' in one ? [String(one.record.data)] : []))
  if (addresses.length === 0) throw new CannotTell(`${server} has no address of ${name}`)
  return addresses
}

function onPort(id: string, method: 'http-01' | 'tls-alpn-01', section: 'http01' | 'tlsalpn01'): Check {
  return {
    id: `challenges.${id}`,
    title: `The port of ${method} is reached from here`,
    async look(sources) {
      const { enabled, [section]: settings } = sources.config.challenges
      if (!enabled.includes(method)) return undefined
      const { target } = sources.options
      if (target === undefined)
        return unknown(`cannot tell, because no host of a client is named`, 'name one that listens: --target NAME')
      const addresses = await addressesOf(sources, target)
      const results = await Promise.all(addresses.map((address) => connectTo(address, settings.port, CONNECT_MS)))
      if (results.some(({ failure: why }) => why === undefined))
        return ok(`port ${settings.port} of ${target} is reached`)
      return failure(
        `port ${settings.port} of ${target} (${addresses.join(', ')}) is not reached from here: ${results[0]?.failure}`,
        `let this host through to port ${settings.port} of clients: the firewall here, between, and there; a client of ${method} listens only while it orders`,
      )
    },
  }
}

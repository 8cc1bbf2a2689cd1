/** Clients behind a proxy: whether the service knows their addresses and their protocol. */

import { type Answer, jsonOf } from '../facts/http.ts'
import type { Check, Sources } from '../sources.ts'
import { CannotTell, failure, ok, type Verdict, warning } from '../verdict.ts'
import { requireDirectory } from './proxy.ts'

export const PROXY_CLIENT: readonly Check[] = [
  {
    id: 'proxy.client-address',
    title: 'The service knows the addresses of clients',
    async look(sources) {
      if (isSame(sources)) return undefined
      const { client, answer } = await shownClient(sources)
      return judgeAddress({ seen: client.address, own: answer.localAddress, ...trust(sources) })
    },
  },
  {
    id: 'proxy.scheme',
    title: 'The service knows that clients use HTTPS',
    async look(sources) {
      if (isSame(sources)) return undefined
      const { client } = await shownClient(sources)
      if (`${client.scheme}:` === new URL(sources.config.server.external_url).protocol)
        return ok(`it takes them for ${client.scheme}`)
      return failure(
        `the service takes requests to its https URL for ${client.scheme}`,
        'set proxy.enabled and proxy.trusted_proxies to the address of the proxy, and let it send X-Forwarded-Proto; in nginx: proxy_set_header X-Forwarded-Proto $scheme;',
      )
    },
  },
]

/** No proxy is configured and none is seen: the service has the public port itself. */
const isSame = ({ config: { proxy, server } }: Sources) => !proxy.enabled && server.tls.cert_path !== null

const trust = ({ config: { proxy } }: Sources) => ({ isProxy: proxy.enabled, trusted: proxy.trusted_proxies })

/** RFC 5737 reserves this address for documentation, so no client has it. */
const CLAIMED = '192.0.2.77'
/** Any address of 127.0.0.0/8 is this host; this one is nobody's proxy. */
const OTHER_LOOPBACK = '127.0.0.53'

interface ShownClient {
  client: { address: string; scheme: string }
  answer: Answer
}

async function shownClient(sources: Sources): Promise<ShownClient> {
  const { remoteAddress } = await requireDirectory(sources)
  const headers = { 'X-Forwarded-For': CLAIMED, 'X-Forwarded-Proto': 'http' }
  // On loopback the proxy's own address is ours, too, and would hide that it sends no header.
  const isLoopback = remoteAddress.startsWith('127.')
  const answer = await sources.publicAnswer('/livez', {
    headers,
    ...(isLoopback && { localAddress: OTHER_LOOPBACK }),
  })
  if (answer.status !== 200)
    throw new CannotTell(
      `the proxy refuses /livez to this host (${answer.status})`,
      `add ${answer.localAddress} to those who may ask for /livez: the network in deploy/proxy`,
    )
  const { client } = jsonOf<{ client: { address: string; scheme: string } }>(answer.body)
  if (!client) throw new CannotTell('the service is of an earlier release')
  return { client, answer }
}

interface SeenAddress {
  /** By the service. */
  seen: string
  /** The address from which this host connected. */
  own: string
  isProxy: boolean
  trusted: readonly string[]
}

export function judgeAddress({ seen, own, isProxy, trusted }: SeenAddress): Verdict {
  const pass =
    'in nginx: proxy_set_header X-Forwarded-For $remote_addr; in HAProxy: http-request set-header X-Forwarded-For %[src]'
  if (seen === CLAIMED)
    return failure(
      'the service believes the X-Forwarded-For that a client sends: anybody can choose an address, and pass limits',
      `let the proxy set the header itself; ${pass}`,
    )
  if (seen === own) return ok(`it sees ${seen}`)
  if (!isProxy)
    return failure(
      `the service takes this host (${own}) for ${seen}: all clients count as one, and share its limits`,
      `set proxy.enabled: true and proxy.trusted_proxies: [${seen}]`,
    )
  if (trusted.includes(seen) || seen.startsWith('127.') || seen === '::1')
    return failure(
      `the service takes this host (${own}) for ${seen}, the proxy: all clients count as one, and share its limits`,
      `let the proxy send X-Forwarded-For; ${pass}`,
    )
  return warning(
    `the service takes this host (${own}) for ${seen}`,
    `where addresses are translated on the way to the proxy, all is well; else add ${seen} to proxy.trusted_proxies`,
  )
}

/** Name servers, and the networks of clients. */

import { freePort } from '../../support/free-port.ts'
import { a, SERVFAIL } from '../../workers/scripted-dns.ts'
import type { Fault } from './fault.ts'

export const NETWORK: Fault[] = [
  {
    name: 'a name server is gone',
    id: 'resolvers.answer',
    mend: /dns\.resolvers/,
    config: async ({ dns }) => ({ 'dns.resolvers': [dns.resolver, `127.0.0.1:${await freePort()}`] }),
  },
  {
    name: 'a name server refuses',
    id: 'resolvers.answer',
    mend: /let it resolve for this host/,
    dns: () => ({ rcode: 5 }),
  },
  {
    name: 'a name server does not validate',
    id: 'resolvers.dnssec',
    mend: /validating resolver/,
    dns: ({ name }) => ({ answers: [{ type: 'NS', name, data: 'a.gtld.test', ttl: 60 }] }),
  },
  {
    name: 'CAA look-ups fail',
    id: 'resolvers.caa',
    mend: /acme\.caa_unreachable_ok/,
    dns: ({ type, name }) => (type === 'CAA' ? { rcode: SERVFAIL } : { answers: [a(name, '127.0.0.1')] }),
  },
  {
    name: 'CAA records permit another CA only',
    id: 'resolvers.caa',
    mend: /acme\.caa_identities/,
    dns: ({ type, name }) => ({
      answers:
        type === 'CAA' ? [{ type: 'CAA', name, data: { tag: 'issue', value: 'other.test', flags: 0 }, ttl: 60 }] : [],
    }),
  },
  {
    name: 'validation does not know the name of the service',
    id: 'resolvers.own-name',
    mend: /server\.external_url/,
    config: { 'server.external_url': 'https://acme.elsewhere.test' },
  },
  {
    name: 'the network of clients is blocked',
    id: 'challenges.blocked',
    mend: /take its network out/,
    args: ['--target', 'client.corp.test'],
  },
  {
    name: 'this host can be asked by anybody’s name',
    id: 'challenges.blocked',
    mend: /127\.0\.0\.0\/8/,
    config: { 'challenges.http01': { blocked_networks: ['169.254.0.0/16'] } },
  },
  {
    name: 'the firewall keeps challenges in',
    id: 'challenges.http-port',
    mend: /firewall/,
    config: async () => ({ 'challenges.http01.port': await freePort() }),
    args: ['--target', 'client.corp.test'],
  },
]

/** The responder that a type of challenge needs; all run in the conducting process, whose CPU the report shows apart. */

import { startDnsResponder } from './dns.ts'
import { startHttp01Responder } from './http-01.ts'
import type { Proofs, Responder } from './listen.ts'
import { startTlsAlpn01Responder } from './tls-alpn-01.ts'

/** Port 0 starts no responder. */
export interface ResponderPlaces {
  host: string
  http01Port: number
  dnsPort: number
  tlsAlpn01Port: number
}

/** Whether the server has to be told of a name server. */
export function asksDns(challengeType: string): boolean {
  return /^dns-(account-|persist-)?01$/.test(challengeType)
}

/** @returns undefined when the server validates without asking us. @throws Error when a port cannot be listened on */
export async function startResponder(
  challengeType: string,
  { host, http01Port, dnsPort, tlsAlpn01Port }: ResponderPlaces,
  proofs: Proofs,
): Promise<Responder | undefined> {
  if (challengeType === 'http-01' && http01Port > 0) return startHttp01Responder(host, http01Port, proofs)
  if (challengeType === 'tls-alpn-01' && tlsAlpn01Port > 0) return startTlsAlpn01Responder(host, tlsAlpn01Port, proofs)
  if (asksDns(challengeType) && dnsPort > 0) return startDnsResponder(host, dnsPort, host, proofs)
  return undefined
}

/** What a starter of another server is told and what it gives back. */

import { startDnsResponder } from '../responder/dns.ts'
import { Proofs } from '../responder/proofs.ts'
import { asksDns, type ResponderPlaces } from '../responder/responders.ts'

export interface Launch {
  /** For its files; removed by the caller. */
  folder: string
  cpus: string | undefined
  /** Let it take every challenge for met, where it can. */
  acceptsAll: boolean
  challengeType: string
}

export interface Launched {
  directoryUrl: string
  pid: number
  /** Where it looks for answers to challenges. */
  responders: ResponderPlaces
  /** PEM of the root of its TLS certificate; undefined when nobody has signed that. */
  caCertificates: string | undefined
  /** PEM of the root that issued chains lead to. */
  rootCertificate: string
  stop(): Promise<void>
}

/**
 * A name server that gives every name one address, for a server that has to find the responders. The run's own does so too, when
 * the challenge is one of DNS.
 * @returns a function that ends it.
 */
export async function startNames(challengeType: string, host: string, port: number): Promise<() => Promise<void>> {
  if (asksDns(challengeType)) return async () => undefined
  const names = await startDnsResponder(host, port, host, new Proofs())
  return names.close
}

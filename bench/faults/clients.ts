/** The load: ACME clients that obtain certificates and revoke some, and remember whatever the service has promised them. */

import { hash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  createPersistentClient,
  type HeldCertificate,
  KEY_COMPROMISE,
  type PersistentClient,
} from '../client/persistent-client.ts'
import { Forgotten } from '../client/persistent-requests.ts'
import { type Proofs, startResponder } from '../responder/responders.ts'
import { nameMaker, thumbprintName } from '../scenario/scenario.ts'
import type { Stand } from './stand.ts'

/** Instants are milliseconds of this machine's clock, as in `Date.now()`. */
export interface Held {
  orderId: string
  /** Lower-case hexadecimal. */
  serial: string
  /** SHA-256 of the certificate. */
  fingerprint: string
  begunAt: number
  at: number
}

export interface Revoked {
  serial: string
  at: number
}

/** Something that a client had to put up with and must not. */
export interface Incident {
  at: number
  /** When it may have come about; `at` where left out. */
  since?: number
  what: string
}

export interface Clients {
  readonly held: readonly Held[]
  /** Answered with 200. */
  readonly revoked: readonly Revoked[]
  /** Answers that no client should have to expect, a 500 first of all. */
  readonly complaints: readonly Incident[]
  /** Orders and accounts that the service no longer knew. */
  readonly forgotten: readonly Incident[]
  /** Flows that all clients together begin in a second from now on; undefined for as many as they can. */
  pace(perSecond: number | undefined): void
  /** Begins no further flow. @returns flows that have not ended within the bound */
  finish(withinMs: number): Promise<Incident[]>
  close(): Promise<void>
}

export interface LoadOptions {
  clients: number
  /** Flows that all clients together begin in a second; undefined for as many as they can. */
  perSecond: number | undefined
  /** Whether they ask when to renew each certificate. */
  readsRenewalInfo: boolean
}

/** One certificate of so many is revoked. */
const REVOKED_OF = 8

/** @param proofs of all whose challenges are answered here */
export async function startClients(stand: Stand, options: LoadOptions, proofs: Proofs): Promise<Clients> {
  const { clients: count, perSecond, readsRenewalInfo } = options
  let rate = perSecond
  const places = { host: '127.0.0.1', http01Port: stand.http01Port, dnsPort: 0, tlsAlpn01Port: 0 }
  const responder = await startResponder('http-01', places, proofs)
  const held: Held[] = []
  const revoked: Revoked[] = []
  const complaints: Incident[] = []
  const forgotten: Incident[] = []
  const underWay = new Map<number, Incident>()
  let isFinishing = false
  const nextName = nameMaker('f', '.faults.test')

  async function live(index: number): Promise<void> {
    const client = createPersistentClient({
      directoryUrl: stand.directoryUrl,
      trusted: stand.certificate,
      contact: `mailto:client-${index}@faults.test`,
      timeoutMs: Number.POSITIVE_INFINITY,
      onComplaint: ({ url, status, text }) => complaints.push({ at: Date.now(), what: `${url}: ${status} ${text}` }),
    })
    proofs.set(thumbprintName(index), client.thumbprint)
    await client.register()
    for (let flows = index; !isFinishing; flows++) {
      const startedAt = Date.now()
      await flow(client, index, flows % REVOKED_OF === 0)
      if (rate === undefined) continue
      // Spread, so that flows of clients do not fall into step.
      const pause = (2 * Math.random() * 1000 * count) / rate
      await sleep(Math.max(0, startedAt + pause - Date.now()))
    }
  }

  async function flow(client: PersistentClient, index: number, isRevoked: boolean): Promise<void> {
    const begunAt = Date.now()
    const name = nextName(index)
    underWay.set(index, { at: begunAt, what: `the flow for ${name} has not ended` })
    const certificate = await persistent(client, begunAt, () => client.obtain(name))
    const one = heldOf(certificate, begunAt)
    held.push(one)
    if (readsRenewalInfo) await persistent(client, begunAt, () => client.readRenewalInfo(certificate))
    if (isRevoked) {
      await persistent(client, begunAt, () => client.revoke(certificate, KEY_COMPROMISE))
      revoked.push({ serial: one.serial, at: Date.now() })
    }
    underWay.delete(index)
  }

  /** A client whose account or order is gone begins anew, as clients do. */
  async function persistent<T>(client: PersistentClient, begunAt: number, work: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await work()
      } catch (error) {
        if (!(error instanceof Forgotten)) throw error
        forgotten.push({ at: Date.now(), since: begunAt, what: error.message })
        await client.register()
        await sleep(1_000)
      }
    }
  }

  const all = Promise.all(Array.from({ length: count }, (_, index) => live(index)))
  // `finish` throws it; until then it must not end the process.
  all.catch(() => undefined)
  return {
    held,
    revoked,
    complaints,
    forgotten,
    pace: (perSecond) => (rate = perSecond),
    async finish(withinMs) {
      isFinishing = true
      await Promise.race([all, sleep(withinMs)])
      return [...underWay.values()]
    },
    close: async () => responder?.close(),
  }
}

function heldOf({ orderId, leaf }: HeldCertificate, begunAt: number): Held {
  const serial = leaf.serialNumber.toLowerCase()
  return { orderId, serial, fingerprint: hash('sha256', leaf.raw, 'hex'), begunAt, at: Date.now() }
}

/**
 * A crowd of ACME clients that keeps a service busy while a fault test kills parts of it, and the moments to kill at.
 *
 * Moments come from a seed, which is printed; `CHANCERY_TEST_SEED` repeats them (what the clients do meanwhile it cannot).
 */

import assert from 'node:assert/strict'
import { randomInt } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  createPersistentClient,
  type HeldCertificate,
  type PersistentClient,
} from '../../bench/client/persistent-client.ts'
import { Forgotten } from '../../bench/client/persistent-requests.ts'
import { startHttp01Responder } from './http01-responder.ts'

export interface Crowd {
  readonly clients: readonly PersistentClient[]
  readonly held: readonly HeldCertificate[]
  /** Of these the service has confirmed the revocation. */
  readonly revoked: readonly HeldCertificate[]
  /** Answers that the service does not know an account, an order or a certificate. */
  readonly forgotten: readonly string[]
  /** Lets every client finish what it has begun. @throws when one could not before its deadline */
  finish(): Promise<void>
  /** Gives up at once; for clean-up. */
  close(): Promise<void>
}

export interface CrowdOptions {
  /** One directory, or several instances', to which the clients are dealt out in turn. */
  directoryUrl: string | readonly string[]
  http01Port: number
  accounts: number
  /** Orders of each account under way at the same time. */
  ordersAtOnce: number
  timeoutMs: number
  /** The contact of every account. */
  contact?: string
  /** Certificates, after which the crowd finishes by itself. */
  most?: number
  /** The pause of each lane before its next order; there is none when absent. */
  pauseMs?: number
  /** Every so many-th certificate is revoked as soon as its client holds it; none when absent. */
  revokesEvery?: number
}

export async function startCrowd(options: CrowdOptions): Promise<Crowd> {
  const { timeoutMs, contact, most = Number.POSITIVE_INFINITY, pauseMs = 0, revokesEvery } = options
  const directories = [options.directoryUrl].flat()
  const responder = await startHttp01Responder(options.http01Port)
  const clients = Array.from({ length: options.accounts }, (_, index) => {
    const directoryUrl = directories[index % directories.length] as string
    return createPersistentClient({ directoryUrl, timeoutMs, ...(contact !== undefined && { contact }) })
  })
  const held: HeldCertificate[] = []
  const revoked: HeldCertificate[] = []
  const forgotten: string[] = []
  let finishing = false
  let count = 0

  /** Its records are lost: the client begins anew. */
  async function unlessForgotten<T>(client: PersistentClient, work: () => Promise<T>): Promise<T | undefined> {
    try {
      return await work()
    } catch (error) {
      if (!(error instanceof Forgotten)) throw error
      forgotten.push(error.message)
      await client.register()
      return undefined
    }
  }

  async function lane(client: PersistentClient): Promise<void> {
    while (!finishing && count < most) {
      const name = `crowd-${count++}.test`
      responder.serve(name, client.thumbprint)
      const certificate = await unlessForgotten(client, () => client.obtain(name))
      if (certificate === undefined) continue
      held.push(certificate)
      if (revokesEvery !== undefined && held.length % revokesEvery === 0)
        await unlessForgotten(client, async () => {
          await client.revoke(certificate)
          revoked.push(certificate)
        })
      if (pauseMs > 0) await sleep(pauseMs)
    }
  }

  async function live(client: PersistentClient): Promise<void> {
    await client.register()
    await Promise.all(Array.from({ length: options.ordersAtOnce }, () => lane(client)))
  }

  const lives = Promise.all(clients.map(live))
  // `finish` gets the failure; until then it must not end the process.
  lives.catch(() => undefined)
  return {
    clients,
    held,
    revoked,
    forgotten,
    async finish() {
      finishing = true
      await lives
    },
    async close() {
      finishing = true
      await responder.close()
    },
  }
}

/** A client may meet closed connections and 503, and nothing else that it would have to report. */
export function assertNoComplaints({ clients, forgotten }: Crowd): void {
  assert.deepEqual(
    clients.flatMap(({ complaints }) => complaints),
    [],
  )
  assert.deepEqual(forgotten, [])
}

/** Milliseconds between `from` and `to`, repeatable by the seed. */
export function createMoments(from: number, to: number): () => number {
  let state = Number(process.env['CHANCERY_TEST_SEED']) || randomInt(1, 2 ** 31)
  console.log(`seed of the moments: CHANCERY_TEST_SEED=${state}`)
  return () => {
    // The minimal standard generator of Park and Miller; its product stays below 2^53.
    state = (state * 48_271) % 2_147_483_647
    return from + (state % (to - from))
  }
}

/** The world of the acts: two administrators, and holders of accounts whose challenges are answered. */

import { createPersistentClient, type PersistentClient } from '../../client/persistent-client.ts'
import { PersistentRequests, type RequestOptions } from '../../client/persistent-requests.ts'
import type { Proofs } from '../../responder/responders.ts'
import { thumbprintName } from '../../scenario/scenario.ts'
import type { Caller } from './caller.ts'

interface Parts {
  admin: Caller
  /** Approves what the other one asks for. */
  second: Caller
  /** Origin of the console, to which passkeys are bound. */
  consoleOrigin: string
  proofs: Proofs
  requests: RequestOptions
}

/** Above every client of the load, which has proofs of its own. */
const FIRST_HOLDER = 100_000

export class World {
  readonly admin: Caller
  readonly second: Caller
  readonly consoleOrigin: string
  readonly #proofs: Proofs
  readonly #requests: RequestOptions
  #holders = FIRST_HOLDER
  /** Clients that registered as an act. */
  readonly registered: Holder[] = []

  constructor({ admin, second, consoleOrigin, proofs, requests }: Parts) {
    this.admin = admin
    this.second = second
    this.consoleOrigin = consoleOrigin
    this.#proofs = proofs
    this.#requests = requests
  }

  async register(): Promise<Holder> {
    const requests = this.#requests
    const index = this.#holders++
    const client = createPersistentClient({ ...requests, contact: `mailto:holder-${index}@faults.test` })
    this.#proofs.set(thumbprintName(index), client.thumbprint)
    await client.register()
    return new Holder(client, index, new PersistentRequests(client.certificateKey, requests))
  }
}

export class Holder {
  readonly client: PersistentClient
  readonly url: string
  readonly id: string
  readonly #index: number
  /** Signed by the key of its certificates. */
  readonly #byCertificateKey: PersistentRequests

  constructor(client: PersistentClient, index: number, byCertificateKey: PersistentRequests) {
    this.client = client
    this.url = client.kid ?? ''
    this.id = this.url.slice(this.url.lastIndexOf('/') + 1)
    this.#index = index
    this.#byCertificateKey = byCertificateKey
  }

  /** @param label without "-". @returns a name whose challenges are answered for this account */
  nameFor(label: string): string {
    return `${label}-${this.#index.toString(36)}-0.test`
  }

  /** Once. @throws Error unless it was answered with success */
  async post(url: string, payload: object | ''): Promise<string> {
    return (await this.client.requests.post(url, payload === '' ? '' : JSON.stringify(payload))).text
  }

  /** @throws Error unless it was answered with success */
  async proveCompromise(certificate: Buffer): Promise<void> {
    const { revokeCert } = await this.#byCertificateKey.directory()
    const payload = { certificate: certificate.toString('base64url'), reason: 1 }
    await this.#byCertificateKey.post(revokeCert, JSON.stringify(payload))
  }
}

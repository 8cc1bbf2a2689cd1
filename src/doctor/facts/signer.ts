/** Asks the signer about itself: its version, its issuers, its health, and other databases at work with it. */

import path from 'node:path'
import { readSharedSecret } from '../../../signer/protocol/handshake.ts'
import type { CaHealth, CaIssuer } from '../../ca/backend.ts'
import { SignerBackend } from '../../ca/signer-backend.ts'
import { SignerClient } from '../../ca/signer-client.ts'
import { findRunningSigner, type SignerPlace } from '../../ca/signer-place.ts'
import { describeOthers, signerRecords } from '../../ca/signer-records.ts'
import { hasSigner } from '../../config/backends.ts'
import type { Config } from '../../config/schema.ts'
import { signerProgram } from '../../settings/signer-settings.ts'
import { messageOf } from '../../shared/lib/errors.ts'
import type { Database } from '../../store/database.ts'
import { createDecisionStore } from '../../store/decision-store.ts'
import { readIncarnation } from '../../store/incarnation.ts'
import { CannotTell } from '../verdict.ts'

export interface SignerFacts {
  version: string
  issuers: readonly CaIssuer[]
  health: CaHealth
  /** Issuer and milliseconds of each test signature; undefined where none was asked for. */
  signed: readonly { issuer: string; durationMs: number }[] | undefined
}

const ANSWER_MS = 5_000

/** Connects once, asks, and leaves. @throws CannotTell */
export async function connectForFacts(config: Config, testSign: boolean): Promise<SignerFacts> {
  const { socketPath, secretFile } = placeOf(config)
  let secret: Buffer
  try {
    secret = readSharedSecret(secretFile)
  } catch (error) {
    throw new CannotTell(messageOf(error), 'run chancery doctor as root or as the user of the service')
  }
  let version = ''
  let last: Error | undefined
  const signer = new SignerBackend({
    socketPath,
    secret,
    onConnect(facts) {
      version = facts.version
    },
    onIssuersChanged: () => undefined,
    onIssuersRejected: () => undefined,
    onDisconnect(reason) {
      last = reason
    },
  })
  try {
    const health = await signer.health({ timeoutMs: ANSWER_MS })
    const signed = testSign ? await signer.testSign({ timeoutMs: ANSWER_MS }) : undefined
    return { version, issuers: signer.issuers(), health, signed }
  } catch (error) {
    throw new CannotTell(`the signer at ${socketPath} does not answer: ${messageOf(last ?? error)}`)
  } finally {
    await signer.close()
  }
}

/** The socket and the secret of the signer. @throws CannotTell */
function placeOf(config: Config): SignerPlace {
  if (!hasSigner(config)) throw new CannotTell('no certificate is signed here')
  const { socket, secret_file } = config.ca.signer
  if (socket !== null) return { socketPath: socket, secretFile: path.resolve(secret_file ?? '') }
  const place = findRunningSigner(signerProgram(config).auditFile)
  if (place === undefined || place === 'starting')
    throw new CannotTell('the service starts its signer itself, and does not run', 'start the service')
  return place
}

/**
 * Asks about other databases at work with the signer. The question leaves no trace there.
 *
 * @returns who else is there; empty for nobody, undefined where a signer of an earlier release cannot tell
 * @throws CannotTell, errors of database and signer
 */
export async function othersAtSigner(config: Config, db: Pick<Database, 'query'>): Promise<string | undefined> {
  const { socketPath, secretFile } = placeOf(config)
  const client = new SignerClient({ socketPath, secret: readSharedSecret(secretFile) })
  try {
    const { id } = await createDecisionStore(db).identity()
    const { incarnation } = await readIncarnation(db)
    const own = { database: id, incarnation }
    const use = await signerRecords(client).announce(own, { requester: 'chancery command', remember: false })
    return use && describeOthers(own, use)
  } finally {
    await client.close()
  }
}

/** Decisions of a command: told to the signer that is there, else to the file beside the instance of this host. */

import path from 'node:path'
import { readSharedSecret } from '../../signer/protocol/handshake.ts'
import { type RecordDecisions, recordThrough } from '../admin/audit/audit-log.ts'
import { SignerClient } from '../ca/signer-client.ts'
import { findRunningSigner, type SignerPlace } from '../ca/signer-place.ts'
import { signerRecords } from '../ca/signer-records.ts'
import { hasSigner } from '../config/backends.ts'
import type { Config } from '../config/schema.ts'
import { DecisionFile } from '../services/decisions/decision-file.ts'
import { DecisionRecorder } from '../services/decisions/decision-recorder.ts'
import { decisionsFile, signerProgram } from '../settings/signer-settings.ts'
import { createDecisionStore } from '../store/decision-store.ts'
import { hasNoIdentity, readIncarnation } from '../store/incarnation.ts'
import { type DatabasePool, queriesOf } from '../store/slonik.ts'

export function commandDecisions(config: Config, db: DatabasePool): RecordDecisions {
  return recordThrough(async (decisions) => {
    const place = placeOf(config)
    if (decisions.length === 0) return undefined
    const known = await knownDatabase(db)
    if (!known) return undefined
    const { identity, incarnation } = known
    let client: SignerClient | undefined
    try {
      if (place) client = connectTo(place)
      const recorder = new DecisionRecorder({
        identity,
        incarnation: () => incarnation,
        records: client && signerRecords(client),
        file: new DecisionFile(decisionsFile(config)),
        requester: 'command',
        onFile: () => undefined,
        onDropped: () => undefined,
      })
      await recorder.note(decisions)
      return undefined
    } catch (error) {
      return (error as Error).message
    } finally {
      await client?.close()
    }
  })
}

/** The identity is undefined before migration 0033, which makes its table. */
async function knownDatabase(db: DatabasePool) {
  const queries = queriesOf(db)
  try {
    const { incarnation } = await readIncarnation(queries)
    return { identity: await createDecisionStore(queries).identity(), incarnation }
  } catch (error) {
    if (hasNoIdentity(error)) return undefined
    throw error
  }
}

/** The signer is undefined where none is configured, or none runs. */
function placeOf(config: Config): SignerPlace | undefined {
  if (!hasSigner(config)) return undefined
  const { socket, secret_file } = config.ca.signer
  if (socket !== null && secret_file !== null) return { socketPath: socket, secretFile: path.resolve(secret_file) }
  const running = findRunningSigner(signerProgram(config).auditFile)
  return running === 'starting' ? undefined : running
}

/** @returns undefined where the secret cannot be read: then the file takes the act */
function connectTo({ socketPath, secretFile }: SignerPlace): SignerClient | undefined {
  try {
    return new SignerClient({ socketPath, secret: readSharedSecret(secretFile) })
  } catch {
    return undefined
  }
}

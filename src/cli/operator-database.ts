/**
 * The database for operators' commands: one connection, a long time limit, always closed. Decisions of a command go to
 * the signer that is there, else to the file beside the instance of this host.
 */

import { userInfo } from 'node:os'
import path from 'node:path'
import { readSharedSecret } from '../../signer/protocol/handshake.ts'
import { AuditLog, type RecordDecisions, recordThrough } from '../admin/audit/audit-log.ts'
import { SignerClient } from '../ca/signer-client.ts'
import { findRunningSigner, type SignerPlace } from '../ca/signer-place.ts'
import { signerRecords } from '../ca/signer-records.ts'
import { hasSigner } from '../config/backends.ts'
import type { Config } from '../config/schema.ts'
import type { Actor } from '../domain/administrator.ts'
import { DecisionFile } from '../services/decisions/decision-file.ts'
import { DecisionRecorder } from '../services/decisions/decision-recorder.ts'
import { auditKeyOf } from '../settings/admin-settings.ts'
import { databaseSettings } from '../settings/server-settings.ts'
import { decisionsFile, signerProgram } from '../settings/signer-settings.ts'
import { type Database, openDatabase } from '../store/database.ts'
import { createDecisionStore } from '../store/decision-store.ts'
import { hasNoIdentity, readIncarnation } from '../store/incarnation.ts'
import { requireUsableSchema } from '../store/schema/schema-state.ts'
import { type DatabasePool, openCheckedDatabase, queriesOf } from '../store/slonik.ts'

/** An index over a large table takes minutes, and so does a change of millions of rows. */
const STATEMENT_TIMEOUT_MS = 3_600_000

const settingsOf = (config: Config) => ({ ...databaseSettings(config, 1), statementTimeoutMs: STATEMENT_TIMEOUT_MS })

/** @throws SchemaMismatch and connection errors */
export async function withDatabase<T>(config: Config, work: (db: Database) => Promise<T>): Promise<T> {
  const settings = settingsOf(config)
  await requireUsableSchema(settings)
  const db = openDatabase(settings, () => undefined)
  try {
    return await work(db)
  } finally {
    await db.close()
  }
}

/** The use cases of the Admin API; their entries in the audit log name the OS user. */
export interface Administration {
  db: DatabasePool
  audit: AuditLog
  actor: Actor
}

/**
 * @param schema `any` for what must work between two releases, also where the database cannot say whether it was compared
 * @param ofDatabase `any` for what compares it (src/store/incarnation.ts)
 * @throws SchemaMismatch and connection errors
 */
export async function withAdministration<T>(
  config: Config,
  work: (administration: Administration) => Promise<T>,
  schema: 'current' | 'any' = 'current',
  ofDatabase: 'compared' | 'any' = 'compared',
): Promise<T> {
  const settings = { ...settingsOf(config), requireCompared: () => ofDatabase === 'compared' && schema === 'current' }
  if (schema === 'current') await requireUsableSchema(settings)
  const db = await openCheckedDatabase(settings)
  try {
    return await work({
      db,
      audit: new AuditLog(db, auditKeyOf(config), undefined, commandDecisions(config, db)),
      actor: commandLine(),
    })
  } finally {
    await db.end()
  }
}

function commandLine(): Actor {
  const operator = osUser()
  return { userId: undefined, username: operator, role: 'admin', ipAddress: undefined, operator }
}

function osUser(): string {
  try {
    return userInfo().username
  } catch {
    // A user id without a name, as in a container.
    return `uid ${process.getuid?.() ?? 'unknown'}`
  }
}

function commandDecisions(config: Config, db: DatabasePool): RecordDecisions {
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

/** A signer that runs by itself; undefined where the service starts its own. */
export function configuredSigner({ ca }: Config): SignerPlace | undefined {
  const { socket, secret_file } = ca.signer
  return socket === null || secret_file === null
    ? undefined
    : { socketPath: socket, secretFile: path.resolve(secret_file) }
}

/** The signer is undefined where none is configured, or none runs. */
function placeOf(config: Config): SignerPlace | undefined {
  if (!hasSigner(config)) return undefined
  const configured = configuredSigner(config)
  if (configured) return configured
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

/** The supervisor's CA: the signer, the shared switches, and issuance for itself and for recovery. */

import path from 'node:path'
import { NO_ROOM } from '../../../signer/protocol/signer-errors.ts'
import type { CaBackend } from '../../ca/backend.ts'
import { requireTestSignatures, requireUsableIssuers } from '../../ca/signer-check.ts'
import type { SignerPlace } from '../../ca/signer-place.ts'
import { startSignerProcess } from '../../ca/signer-process.ts'
import { csrBackendNames, hasSigner } from '../../config/backends.ts'
import type { CsrIssuances } from '../../services/csr-issuances.ts'
import { announcingAuthorizations } from '../../services/flow-cache.ts'
import type { Issuance } from '../../services/issuance.ts'
import { allocateSharedFlags, openSharedFlags, type SharedFlags } from '../../services/shared-state.ts'
import { issuerDuties, signerProgram } from '../../settings/signer-settings.ts'
import { allocateChangeCounters, openChangeCounters } from '../../shared/lib/shared-memory.ts'
import type { ChallengeMethods } from '../../validation/extensions.ts'
import type { StartContext } from '../start-context.ts'
import type { DatabasePart } from '../start-database.ts'
import { createStores, type Stores } from '../stores.ts'
import { refreshServerCertificate, warnOfOwnNames } from '../tls.ts'
import { type CsrBackends, startCsrBackends } from './csr-backends.ts'
import { connectCa } from './signer-connection.ts'
import { createCsrIssuances } from './start-csr-issuances.ts'
import { createThreadIssuance } from './start-issuance.ts'

const SIGNER_FIRST_ANSWER_MS = 15_000
/** `ca test-sign` has a signer of its own for seconds. */
const SIGNER_TURN_MS = 30_000
const SIGNER_STOP_MS = 10_000

interface SignerPart extends SignerPlace {
  pid(): number | undefined
}

export interface CaPart {
  /** Undefined when no certificate is signed here. */
  signer: SignerPart | undefined
  ca: CaBackend
  flags: SharedFlags
  flagsMemory: SharedArrayBuffer
}

export async function startCa(context: StartContext): Promise<CaPart> {
  const { config, metrics, log, parts } = context
  const signer = hasSigner(config) ? await startSigner(context) : undefined
  const csrBackends = csrBackendNames(config)
  const flagsMemory = allocateSharedFlags(config.server.workers, csrBackends)
  const flags = openSharedFlags(flagsMemory, csrBackends)
  const ca = parts.add('signer connection', connectCa({ config, signer, flags, metrics, log }), (one) => one.close())
  // A service that cannot sign would accept orders and never finish them; room comes back by itself.
  if (signer)
    await requireTestSignatures(ca, signer.socketPath, SIGNER_FIRST_ANSWER_MS).catch((error: Error) => {
      const hasOthers = csrBackends.length > 0
      if (!hasOthers && !(error.cause as Error | undefined)?.message.startsWith(NO_ROOM)) throw error
      const until = hasOthers ? 'other backends issue meanwhile' : 'nothing is signed until its disk has room'
      log.error({ reason: error.message }, `the signer is away; ${until}`)
    })
  requireUsableIssuers(ca.issuers(), issuerDuties(config))
  return { signer, ca, flags, flagsMemory }
}

async function startSigner({ config, log, parts }: StartContext): Promise<SignerPart> {
  const { socket, secret_file } = config.ca.signer
  if (socket !== null && secret_file !== null)
    return { socketPath: socket, secretFile: path.resolve(secret_file), pid: () => undefined }
  const child = await startSignerProcess(signerProgram(config), log, SIGNER_TURN_MS)
  return parts.add('signer', child, (one) => one.stop(SIGNER_STOP_MS))
}

export interface IssuancePart {
  stores: Stores
  issuance: Issuance
  backends: CsrBackends
  /** Undefined when the signer signs everything. */
  csrIssuances: CsrIssuances | undefined
  /** Memory of the change counters. */
  changes: SharedArrayBuffer
  /** @returns whether the service's own certificate was renewed */
  refreshCertificate(): Promise<boolean>
}

export async function startIssuance(
  context: StartContext,
  { db, presence: { instanceId }, eventWriter }: DatabasePart,
  { ca, flags }: CaPart,
  methods: ChallengeMethods,
): Promise<IssuancePart> {
  const { config, metrics, log, parts, onStep } = context
  const changes = allocateChangeCounters()
  const plainStores = createStores(db)
  const stores = {
    ...plainStores,
    authorizations: announcingAuthorizations(plainStores.authorizations, openChangeCounters(changes)),
  }
  const issuance = createThreadIssuance({ config, methods, db, stores, ca, instanceId, metrics, log, eventWriter })
  if (config.server.tls.self_issued_names.length > 0) {
    onStep('checking the server certificate')
    warnOfOwnNames(config, issuance, log)
  }
  const refreshCertificate = () => refreshServerCertificate(config, issuance)
  await refreshCertificate()
  // Runs after all validation has stopped; another instance adopts the released challenges.
  parts.add('challenges', stores.authorizations, async (authorizations) => {
    const released = await authorizations.release(instanceId)
    if (released > 0) log.info({ released }, 'challenges in processing are pending again')
  })
  const backends = await startCsrBackends(context, db, flags)
  const csrIssuances = createCsrIssuances(context, { backends, db, ca, issuance, flags, instanceId, eventWriter })
  return { stores, issuance, backends, csrIssuances, changes, refreshCertificate }
}

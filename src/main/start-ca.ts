/**
 * The supervisor's CA: the signer, the shared switches, and issuance for itself and for recovery.
 */

import path from 'node:path'
import type { CaBackend } from '../ca/backend.ts'
import { announcingAuthorizations } from '../services/flow-cache.ts'
import { allocateInstanceBoard, type InstanceBoard, openInstanceBoard } from '../services/instance-board.ts'
import type { Issuance } from '../services/issuance.ts'
import { allocateChangeCounters, openChangeCounters } from '../shared/lib/change-counters.ts'
import { requireTestSignatures } from './signer-check.ts'
import { type SignerPlace, startSignerProcess } from './signer-process.ts'
import type { StartContext } from './start-context.ts'
import type { DatabasePart } from './start-database.ts'
import { refreshServerCertificate } from './tls.ts'
import type { ChallengeMethods } from './validation/extensions.ts'
import { connectCa, createStores, createThreadIssuance, type Stores } from './wiring.ts'

const SIGNER_FIRST_ANSWER_MS = 15_000
const SIGNER_STOP_MS = 10_000

export interface SignerPart extends SignerPlace {
  pid(): number | undefined
}

export interface CaPart {
  signer: SignerPart
  ca: CaBackend
  board: InstanceBoard
  boardMemory: SharedArrayBuffer
}

export async function startCa(context: StartContext): Promise<CaPart> {
  const { config, metrics, log, teardown } = context
  const signer = await startSigner(context)
  const boardMemory = allocateInstanceBoard(config.server.workers)
  const board = openInstanceBoard(boardMemory)
  const ca = connectCa({ config, signer, board, metrics, log })
  teardown.add(() => ca.close())
  // A service that cannot sign would accept orders and never finish them.
  await requireTestSignatures(ca, signer.socketPath, SIGNER_FIRST_ANSWER_MS)
  return { signer, ca, board, boardMemory }
}

async function startSigner({ config, log, teardown }: StartContext): Promise<SignerPart> {
  const { socket, secret_file } = config.ca.signer
  if (socket !== null && secret_file !== null)
    return { socketPath: socket, secretFile: path.resolve(secret_file), pid: () => undefined }
  const child = await startSignerProcess(config, log)
  teardown.add(() => child.stop(SIGNER_STOP_MS))
  return child
}

export interface IssuancePart {
  stores: Stores
  issuance: Issuance
  /** Memory of the change counters. */
  changes: SharedArrayBuffer
  /** @returns whether the service's own certificate was renewed */
  refreshCertificate(): Promise<boolean>
}

export async function startIssuance(
  { config, metrics, log, teardown, onStep }: StartContext,
  { db, presence: { instanceId } }: DatabasePart,
  { ca }: CaPart,
  methods: ChallengeMethods,
): Promise<IssuancePart> {
  const changes = allocateChangeCounters()
  const plainStores = createStores(db)
  const stores = {
    ...plainStores,
    authorizations: announcingAuthorizations(plainStores.authorizations, openChangeCounters(changes)),
  }
  const issuance = createThreadIssuance({ config, methods, db, stores, ca, instanceId, metrics, log })
  if (config.server.tls.self_issued_names.length > 0) onStep('checking the server certificate')
  const refreshCertificate = () => refreshServerCertificate(config, issuance)
  await refreshCertificate()
  // Runs after all validation has stopped; another instance adopts the released challenges.
  teardown.add(async () => {
    const released = await stores.authorizations.release(instanceId)
    if (released > 0) log.info({ released }, 'challenges in processing are pending again')
  })
  return { stores, issuance, changes, refreshCertificate }
}

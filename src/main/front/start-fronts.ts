/** The front threads: their start data, their replacement, and the updates sent to them. */

import { randomBytes } from 'node:crypto'
import type { Config } from '../../config/schema.ts'
import type { ActorRef } from '../../runtime/actor.ts'
import { furtherRootsPem } from '../../settings/issuance-settings.ts'
import { liveSettings } from '../../settings/server-settings.ts'
import { programFile } from '../../shared/lib/program-files.ts'
import { allocateSharedTable } from '../../shared/lib/shared-memory.ts'
import { allocateReplayWindow } from '../../shared/protocol/nonce.ts'
import type { AdminThread } from '../admin/start-admin.ts'
import type { Crls } from '../ca/start-crl.ts'
import type { FrontMessages, FrontThreadData, SupervisorMessages } from '../messages.ts'
import type { EarlierParts } from '../start-background.ts'
import { type StartContext, superviseServiceThread } from '../start-context.ts'
import { renewServerCertificate, tlsFiles } from '../tls.ts'
import { warnOfMissingRoots } from './front-documents.ts'

const FRONT_APPLY_MS = 2_000

interface Fronts {
  /** Applies live settings to every current and future thread. */
  apply(config: Config): Promise<void>
  /** Every connection ends with its next reply from now on. */
  closeAfterReplies(): Promise<void>
}

/** Actors that the fronts send messages to. */
interface Reached {
  supervisor: ActorRef<SupervisorMessages>
  /** Undefined when the Admin API is off. */
  admin: AdminThread | undefined
}

export async function startFronts(
  context: StartContext,
  earlier: EarlierParts,
  crl: Crls | undefined,
  { supervisor, admin }: Reached,
): Promise<Fronts> {
  const { config, fronts, now } = context
  // uWebSockets.js reads this when the first thread loads it. 16 KiB also fits a proxy's headers.
  process.env.UWS_HTTP_MAX_HEADERS_SIZE ??= '16384'
  const rootsPem = furtherRootsPem(config)
  warnOfMissingRoots(config, { ...context, ...earlier.ca }, rootsPem)
  const threads = threadData(context, earlier, crl, rootsPem)
  // Updates running threads and the start data of their successors.
  crl?.follow((crls) => {
    for (const data of threads) data.crls = crls
    // A thread under replacement gets the lists at its start or with the next update.
    void Promise.allSettled(fronts.map(({ ref }) => ref.ask('crls', crls, FRONT_APPLY_MS)))
  })
  const gracefulMs = config.server.graceful_timeout * 1000
  for (const data of threads) fronts.push(superviseFront(context, data, { supervisor, admin }))
  context.parts.add('front threads', fronts, (all) => {
    now.stopping = true
    return Promise.all(all.map((front) => front.stop(gracefulMs)))
  })
  await Promise.all(fronts.map((front) => front.start()))
  followServerCertificate(context, earlier)
  return {
    async apply(next) {
      for (const data of threads) data.config = next
      // A thread under replacement reads the new configuration when it starts.
      await Promise.allSettled(fronts.map(({ ref }) => ref.ask('live', liveSettings(next), FRONT_APPLY_MS)))
    },
    async closeAfterReplies() {
      // A thread under replacement has no connections.
      await Promise.allSettled(fronts.map(({ ref }) => ref.ask('closeAfterReplies', undefined, FRONT_APPLY_MS)))
    },
  }
}

function threadData(
  { config, version }: StartContext,
  { methods, database, ca: { signer, flagsMemory }, issuance: { changes } }: EarlierParts,
  crl: Crls | undefined,
  rootsPem: string,
): FrontThreadData[] {
  const shared: Omit<FrontThreadData, 'front'> = {
    config,
    methods,
    version,
    instanceId: database.presence.instanceId,
    signer: signer && { socketPath: signer.socketPath, secretFile: signer.secretFile },
    nonce: { key: randomBytes(32), epochMs: Date.now(), window: allocateReplayWindow() },
    changes,
    rateTable: allocateSharedTable(),
    flags: flagsMemory,
    rootsPem,
    crls: crl?.shared() ?? { lists: [], withheld: [] },
    tls: tlsFiles(config),
  }
  return Array.from({ length: config.server.workers }, (_, front) => ({ ...shared, front }))
}

function superviseFront(context: StartContext, data: FrontThreadData, { supervisor, admin }: Reached) {
  return superviseServiceThread<FrontMessages, SupervisorMessages>(context, {
    name: `front-${data.front + 1}`,
    entry: programFile('src/main/front/front-thread.ts'),
    data,
    supervisor,
    peer: asksAdmin(context.config) ? admin : undefined,
  })
}

/** Whether a front serves the Admin API, or metrics that ask for its token. */
const asksAdmin = ({ admin_api, metrics }: Config) => admin_api.listen === null || metrics.auth_required

/** A front reads its certificate only at its start, so a renewal replaces the threads one by one. */
function followServerCertificate({ config, fronts, log, parts }: StartContext, { issuance }: EarlierParts): void {
  if (!tlsFiles(config)) return
  const recycleFronts = async () => {
    for (const front of fronts) await front.recycle('server certificate renewed')
  }
  const renewal = renewServerCertificate(issuance.refreshCertificate, recycleFronts, log)
  parts.add('server certificate', renewal, (one) => one.stop())
}

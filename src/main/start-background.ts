/** CRLs and background tasks of the supervisor, and the actors that answer front threads. */

import { type BackgroundWorkers, startBackgroundTasks } from '../background/tasks.ts'
import { backgroundEvents, backgroundTasks, workEvents } from './background.ts'
import { type Crls, startCrls } from './crl.ts'
import type { CaPart, IssuancePart } from './start-ca.ts'
import type { StartContext } from './start-context.ts'
import type { DatabasePart } from './start-database.ts'
import type { ValidationPart } from './start-validation.ts'
import { type Supervisor, spawnSupervisor } from './supervisor.ts'
import type { ChallengeMethods } from './validation/extensions.ts'

/** The parts started before these. */
export interface EarlierParts {
  methods: ChallengeMethods
  database: DatabasePart
  ca: CaPart
  issuance: IssuancePart
  validation: ValidationPart
}

/** @returns undefined when no CRL is published */
export async function startCrlPart(
  { config, metrics, log, teardown, now, onStep }: StartContext,
  { database: { presence }, ca: { ca }, issuance: { stores } }: EarlierParts,
): Promise<Crls | undefined> {
  if (!config.crl.enabled) return undefined
  const crl = await startCrls({ config, stores, ca, metrics, log, isStopping: () => now.stopping })
  teardown.add(() => crl.stop())
  // The first certificate already names its list. If another instance leads, that instance builds
  // it.
  if (crl.shared().length === 0) {
    onStep('building the first CRL')
    await presence.lead('crl', async () => void (await crl.builder.round()))
    await crl.refresh()
  }
  return crl
}

export function startBackground(
  { config, metrics, log, now }: StartContext,
  { methods, database: { presence }, ca: { ca }, issuance: { stores, issuance }, validation }: EarlierParts,
  crl: Crls | undefined,
): BackgroundWorkers {
  const tasks = backgroundTasks({
    config,
    live: () => now.config,
    extensions: methods.extensions,
    instanceId: presence.instanceId,
    stores,
    issuance,
    ca,
    dispatcher: validation.dispatcher,
    ...workEvents(log, metrics),
    presentSince: presence.presentSince,
    crls: crl?.builder,
    isStopping: () => now.stopping,
  })
  return startBackgroundTasks(tasks, presence.lead, backgroundEvents(log, metrics))
}

export function startSupervisor(
  { config, metrics, log, teardown, fronts, now }: StartContext,
  { database: { db }, ca: { ca, board }, validation }: EarlierParts,
  crl: Crls | undefined,
  background: BackgroundWorkers,
): Supervisor {
  const supervisor = spawnSupervisor({
    ...{ log, metrics, db, ca, board },
    ...validation,
    fronts: () => fronts,
    workers: () => ({
      challenge: background.isHealthy('challenge'),
      cleanup: background.isHealthy('cleanup') && background.isHealthy('retention'),
      // This version sends no expiration warnings.
      expiration: false,
    }),
    crl: () => crl?.health(),
    isStopping: () => now.stopping,
  })
  teardown.add(async () => supervisor.stop())
  teardown.add(() => validation.dispatcher.drain(config.server.graceful_timeout * 1000))
  // Stopped before the instance releases its challenges: an adoption round would claim them again.
  teardown.add(() => background.stop())
  return supervisor
}

/** A signer for a command that needs one. */

import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import { AuditChainInUse, findRunningSigner, type SignerPlace } from '../../ca/signer-place.ts'
import { type SignerProcess, type SignerProgram, startSignerProcess } from '../../ca/signer-process.ts'
import type { Config } from '../../config/schema.ts'
import { databaseSettings } from '../../settings/server-settings.ts'
import { signerProgram } from '../../settings/signer-settings.ts'
import { announceInstance } from '../../store/instance-presence.ts'
import { requireUsableSchema } from '../../store/schema/schema-state.ts'
import { configuredSigner } from '../operator-database.ts'

const STOP_TIMEOUT_MS = 15_000
/** A token may take its time. */
const START_TIMEOUT_MS = 30_000
/** A test lasts seconds. */
const TURN_TIMEOUT_MS = 120_000
const TURN_LOOK_MS = 200

/**
 * The signer of the configuration, or else of the service that runs here, or else one for this command.
 * @throws Error in a plain sentence
 */
export async function withSigner<T>(
  config: Config,
  log: Logger,
  work: (place: SignerPlace, origin: string) => Promise<T>,
): Promise<T> {
  const configured = configuredSigner(config)
  if (configured) return work(configured, configured.socketPath)
  return alone(config, async () => {
    const { running, child } = await runningOrOwn(signerProgram(config), log)
    if (running) return work(running, `that of the running service, ${running.socketPath}`)
    try {
      return await work(child, 'started for this command')
    } finally {
      await child.stop(STOP_TIMEOUT_MS)
    }
  })
}

type RunningOrOwn = { running: SignerPlace; child?: never } | { running?: never; child: SignerProcess }

/** While a service starts, its signer is waited for. */
async function runningOrOwn(program: SignerProgram, log: Logger): Promise<RunningOrOwn> {
  const end = performance.now() + START_TIMEOUT_MS
  for (;;) {
    const running = findRunningSigner(program.auditFile)
    if (running !== undefined && running !== 'starting') return { running }
    try {
      if (!running) return { child: await startSignerProcess(program, log, 0) }
    } catch (error) {
      if (!(error instanceof AuditChainInUse)) throw error
    }
    if (performance.now() > end) throw new Error('a service is starting here, and its signer does not answer')
    await sleep(TURN_LOOK_MS)
  }
}

/** Two commands at a time would start two signers on one audit chain, or take each other's for the signer of a service. */
async function alone<T>(config: Config, work: () => Promise<T>): Promise<T> {
  const settings = databaseSettings(config, 1)
  await requireUsableSchema(settings)
  const presence = await announceInstance(settings, () => undefined)
  const end = performance.now() + TURN_TIMEOUT_MS
  let result: { value: T } | undefined
  try {
    for (;;) {
      await presence.lead('test_sign', async () => {
        result = { value: await work() }
      })
      if (result) return result.value
      if (performance.now() > end) throw new Error('another command has the signer, and does not end')
      await sleep(TURN_LOOK_MS)
    }
  } finally {
    await presence.close()
  }
}

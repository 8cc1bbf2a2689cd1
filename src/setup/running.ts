/** Whether the units run what is written: a run that was interrupted has changed files and started nothing. */

import { existsSync, statSync } from 'node:fs'
import { startOf } from '../shared/lib/processes.ts'
import { run } from './command.ts'
import { PLACES, SERVICE, SIGNER } from './facts.ts'

/** The files that each program reads at its start. */
const READ = {
  [SIGNER]: [
    ...[PLACES.signerConfig, PLACES.signerEnv, PLACES.secret, PLACES.signerUnit, PLACES.tokenDropIn],
    ...[PLACES.issuer, PLACES.chain, PLACES.issuerKey, PLACES.issuerPassphrase],
    ...[PLACES.tokenPin, PLACES.softhsmConf, PLACES.softhsmPin],
  ],
  [SERVICE]: [PLACES.config, PLACES.serviceEnv, PLACES.secret, PLACES.eabKey, PLACES.auditKey, PLACES.serviceUnit],
} as const

/** @returns why the unit has to be started; undefined where it runs with the newest of its files */
export async function outdated(unit: keyof typeof READ): Promise<string | undefined> {
  const { stdout } = await run({ words: ['systemctl', 'show', '--property=MainPID', unit], as: 'root' })
  const pid = Number(/^MainPID=(\d+)$/m.exec(stdout)?.[1] ?? 0)
  if (pid === 0 || !existsSync(`/proc/${pid}`)) return `${unit} does not run`
  const startedAt = startOf(pid)
  // A file that came by a rename keeps the time of its bytes, so the time of the name counts.
  const newer = READ[unit].find((file) => existsSync(file) && statSync(file).ctime > startedAt)
  return newer && `${unit} runs since ${startedAt.toISOString()}, and ${newer} was changed later`
}

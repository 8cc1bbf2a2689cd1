/** `chancery import step-ca`: accounts, EAB keys and certificates of step-ca, or of Caddy's ACME server. */

import { withFormerDatabase } from '../../import/former-database.ts'
import { stepCaDatabase } from '../../import/step-ca/database.ts'
import { checkDump, openDump } from '../../import/step-ca/dump-file.ts'
import { stepCaSource } from '../../import/step-ca/source.ts'
import { UsageError } from '../../shared/command-line.ts'
import { type ImportOptions, runImport } from './import-run.ts'

export interface StepCaOptions extends ImportOptions {
  from: string | undefined
  dump: string | undefined
  /** For accounts that do not name theirs. */
  provisioner: readonly string[]
}

export async function importStepCa({ from, dump, provisioner, ...options }: StepCaOptions): Promise<number> {
  if ((from === undefined) === (dump === undefined)) throw new UsageError('import step-ca needs --from or --dump')
  if (dump !== undefined) {
    await checkDump(dump)
    return runImport(options, await stepCaSource(openDump(dump), provisioner))
  }
  return withFormerDatabase(from as string, async (database) =>
    runImport(options, await stepCaSource(await stepCaDatabase(database), provisioner)),
  )
}

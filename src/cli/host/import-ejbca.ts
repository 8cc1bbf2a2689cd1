/** `chancery import ejbca`: certificates and revocations of EJBCA. */

import { ejbcaSource, rowsOfDatabase, rowsOfFile } from '../../import/ejbca/source.ts'
import { withFormerDatabase } from '../../import/former-database.ts'
import { UsageError } from '../../shared/command-line.ts'
import { type ImportOptions, runImport } from './import-run.ts'

interface EjbcaOptions extends ImportOptions {
  from: string | undefined
  csv: string | undefined
}

export async function importEjbca({ from, csv, ...options }: EjbcaOptions): Promise<number> {
  if ((from === undefined) === (csv === undefined)) throw new UsageError('import ejbca needs --from or --csv')
  if (csv !== undefined)
    return runImport(
      options,
      ejbcaSource(() => rowsOfFile(csv)),
    )
  return withFormerDatabase(from as string, (database) =>
    runImport(
      options,
      ejbcaSource(() => rowsOfDatabase(database)),
    ),
  )
}

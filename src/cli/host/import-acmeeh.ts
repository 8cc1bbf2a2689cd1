/** `chancery import acmeeh`: accounts, credentials, certificates, grants, administrators and the audit log of ACMEEH. */

import { acmeehSource } from '../../import/acmeeh.ts'
import { withFormerDatabase } from '../../import/former-database.ts'
import { UsageError } from '../../shared/command-line.ts'
import { type ImportOptions, runImport } from './import-run.ts'

interface AcmeehOptions extends ImportOptions {
  from: string | undefined
  /** In front of its `/acct/`. */
  'base-path': string | undefined
}

export async function importAcmeeh({ from, 'base-path': basePath = '', ...options }: AcmeehOptions): Promise<number> {
  if (from === undefined) throw new UsageError('import acmeeh needs --from')
  return withFormerDatabase(from, async (database) =>
    runImport(options, await acmeehSource(database, basePath.replace(/\/$/, ''))),
  )
}

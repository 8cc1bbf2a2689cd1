/**
 * `chancery import certificates`: certificates in files that this database lacks, of a former CA or lost in a restore.
 *
 * A restored database lacks the certificates issued after its backup, which are still valid. The
 * signer's audit chain has only their serial numbers and names. Our issuer's signature proves that
 * they were issued here. After the import they have a CRL entry and renewal information. The key
 * holder and the given account can revoke them.
 */

import { readCertificateFiles } from '../../import/files/certificate-files.ts'
import { issuanceCompletion } from '../../import/files/issuances.ts'
import type { ImportSource } from '../../import/model.ts'
import { inPages } from '../../import/pages.ts'
import { createCertificateImport } from '../../store/certificate-import.ts'
import { readConfigFile } from '../config-file.ts'
import { withAdministration, withDatabase } from '../operator-database.ts'
import { CommandError } from '../values.ts'
import { type ImportOptions, runImport } from './import-run.ts'

interface CertificatesOptions extends ImportOptions {
  /** The owner; without one, only the certificate's key or control of its names can revoke it. */
  account: string | undefined
}

export async function importCertificates(options: CertificatesOptions, paths: readonly string[]): Promise<number> {
  const config = await readConfigFile(options.config)
  return withAdministration(config, ({ audit, actor }) =>
    withDatabase(config, async (db) => {
      const { account } = options
      const accountThumbprint = account && (await createCertificateImport(db).thumbprintOf(account))
      if (account !== undefined && accountThumbprint === undefined)
        throw new CommandError(`there is no account ${account}`)
      const complete = issuanceCompletion(db, audit, actor)
      const source: ImportSource = {
        name: 'files',
        async *certificates() {
          for await (const page of inPages(readCertificateFiles(paths))) {
            if (!options['dry-run']) await complete(page)
            yield page.map((one) => ('der' in one ? { ...one, accountThumbprint } : one))
          }
        },
      }
      return runImport(options, source)
    }),
  )
}

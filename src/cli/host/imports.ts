/** `chancery import …`: writes what a reader of the former server finds, shows how far it is, and prints the books. */

import { acmeehSource } from '../../import/acmeeh.ts'
import { readCertificateFiles } from '../../import/certificate-files.ts'
import { issuanceCompletion } from '../../import/certificates.ts'
import { ejbcaSource, rowsOfDatabase, rowsOfFile } from '../../import/ejbca.ts'
import { withFormerDatabase } from '../../import/former-database.ts'
import { type ImportReport, type ImportSource, inPages, KINDS } from '../../import/model.ts'
import { checkDump, openDump, stepCaDatabase, stepCaSource } from '../../import/step-ca.ts'
import { writeImport } from '../../import/write.ts'
import { eabSecretBox } from '../../settings/eab-secret.ts'
import { UsageError } from '../../shared/command-line.ts'
import { createCertificateImport } from '../../store/certificate-import.ts'
import { readConfigFile } from '../config-file.ts'
import { withAdministration, withDatabase } from '../operator-database.ts'
import { printRows, showProgress } from '../printing.ts'
import { CommandError, type Printing } from '../values.ts'

interface AcmeehOptions extends ImportOptions {
  from: string | undefined
  /** The path in front of `/acct/` at the former server. */
  'base-path': string | undefined
}

export async function importAcmeeh({ from, 'base-path': basePath = '', ...options }: AcmeehOptions): Promise<number> {
  if (from === undefined) throw new UsageError('import acmeeh needs --from')
  return withFormerDatabase(from, async (database) =>
    runImport(options, await acmeehSource(database, basePath.replace(/\/$/, ''))),
  )
}

interface StepCaOptions extends ImportOptions {
  from: string | undefined
  dump: string | undefined
  /** The provisioners of accounts that do not name theirs. */
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

interface CertificatesOptions extends ImportOptions {
  /** The owner; without one, only the certificate's key or control of its names can revoke it. */
  account: string | undefined
}

/**
 * Imports certificates in files that are missing in this database: a former CA issued them, or a restore lost them.
 *
 * A restored database has no certificates issued after its backup, which are still valid. The signer's audit chain has
 * only their serial numbers and names. Our issuer's signature proves that they were issued here. After the import they
 * have a CRL entry and renewal information; the key holder and the given account can revoke them.
 */
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

interface ImportOptions extends Printing {
  'dry-run': boolean
}

const COLUMNS = ['kind', 'read', 'new', 'changed', 'known', 'skipped']

/** @returns 0 when everything was taken over, or was here; 1 when something was skipped */
async function runImport(options: ImportOptions, source: ImportSource): Promise<number> {
  const config = await readConfigFile(options.config)
  const show = showProgress()
  const report = await withAdministration(config, ({ audit, actor }) =>
    writeImport(source, {
      audit,
      actor,
      box: eabSecretBox(config),
      isDryRun: options['dry-run'],
      onProgress: (kind, { read }) => show(`${kind.replaceAll('_', ' ')}: ${read} read`, true),
    }),
  )
  show('everything is read', false)
  printReport(report, options)
  return KINDS.some((kind) => (report[kind]?.skipped ?? 0) > 0) ? 1 : 0
}

/** Prints one line a kind, and then what was skipped, with the reason. */
function printReport(report: ImportReport, { json, 'dry-run': isDryRun }: ImportOptions): void {
  if (json) {
    console.log(JSON.stringify(report, null, 2))
    return
  }
  const kinds = KINDS.flatMap((kind) => (report[kind] ? [{ kind, ...report[kind] }] : []))
  printRows(
    kinds.map(({ kind, ...counts }) => ({ kind: kind.replaceAll('_', ' '), ...counts })),
    COLUMNS,
  )
  console.log(`revocations: ${report.revocations}`)
  const urls = report.first_account_urls?.join(', ')
  if (urls) console.log(`URL of the first account: ${urls} (at its client it must have this path)`)
  for (const { kind, skipped, first_skipped } of kinds) {
    for (const { name, reason } of first_skipped) console.error(`skipped: ${name}: ${reason}`)
    const others = skipped - first_skipped.length
    if (others > 0) console.error(`skipped: ${others} more ${kind.replaceAll('_', ' ')}`)
  }
  if (isDryRun) console.error('This was a dry run: nothing is changed.')
}

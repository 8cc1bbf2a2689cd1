/** What every `chancery import …` does: writes what a reader finds, shows how far it is, and prints the books. */

import { type ImportReport, type ImportSource, KINDS } from '../../import/model.ts'
import { writeImport } from '../../import/write.ts'
import { eabSecretBox } from '../../settings/eab-secret.ts'
import { readConfigFile } from '../config-file.ts'
import { withAdministration } from '../operator-database.ts'
import { printRows } from '../printing.ts'
import type { Printing } from '../values.ts'
import { showProgress } from './migration-progress.ts'

export interface ImportOptions extends Printing {
  'dry-run': boolean
}

const COLUMNS = ['kind', 'read', 'new', 'changed', 'known', 'skipped']

/** @returns 0 when everything was taken over, or was here; 1 when something was skipped */
export async function runImport(options: ImportOptions, source: ImportSource): Promise<number> {
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

/** One line a kind; what was skipped comes behind, with the reason. */
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

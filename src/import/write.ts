/**
 * Takes over the data of a former server page by page: a page is one transaction with its entry in the audit log.
 * A thing that is there already is found by thumbprint, kid, or serial number and issuer, so a run may be repeated.
 */

import type { AuditLog } from '../admin/audit/audit-log.ts'
import type { Actor } from '../domain/administrator.ts'
import { hasNul } from '../shared/lib/encoding.ts'
import type { SecretBox } from '../shared/lib/secret-box.ts'
import { silenceEvents } from '../store/database.ts'
import { queriesOf } from '../store/slonik.ts'
import { createAccountWriter } from './accounts.ts'
import { writeAdministrators, writeAuditEntries, writeIdentifiers, writeProfiles } from './administration.ts'
import { createCertificateWriter } from './certificates.ts'
import { createCredentialWriter, linkCredentials } from './credentials.ts'
import {
  type ImportedKinds,
  type ImportReport,
  type ImportSource,
  KINDS,
  type Kind,
  type KindReport,
  type Outcome,
  type Pages,
  type Unreadable,
  type WritePage,
} from './model.ts'

export interface ImportOptions {
  audit: AuditLog
  actor: Actor
  box: SecretBox | undefined
  isDryRun: boolean
  /** Called after each page. */
  onProgress?(kind: Kind, report: KindReport): void
}

const MOST_NAMED = 20

/** @throws errors of reading the former server and of writing here; earlier pages stay */
export async function writeImport(source: ImportSource, options: ImportOptions): Promise<ImportReport> {
  const report: ImportReport = { revocations: 0 }
  const run: Run = { source, options, report, foreignKids: new Set(), planned: new Map() }
  const writers: { [K in Kind]: WritePage<ImportedKinds[K]> } = {
    credentials: createCredentialWriter(),
    accounts: createAccountWriter(),
    identifiers: writeIdentifiers,
    profiles: writeProfiles,
    certificates: createCertificateWriter(),
    administrators: writeAdministrators,
    audit_entries: writeAuditEntries,
  }
  const takeOver = async <K extends Kind>(kind: K, pages: Pages<ImportedKinds[K]>) => {
    const counts: KindReport = { read: 0, new: 0, changed: 0, known: 0, skipped: 0, first_skipped: [] }
    report[kind] = counts as ImportReport[K]
    for await (const page of pages()) {
      const first = page.find((one): one is ImportedKinds[K] => !isUnreadable(one))
      if (first && 'urls' in first) report.first_account_urls ??= first.urls
      count(counts, await writePage(run, kind, page, writers[kind]))
      options.onProgress?.(kind, counts)
    }
    if (kind === 'accounts' && source.credentials && !options.isDryRun)
      for await (const page of source.credentials()) await writePage(run, 'accounts', page, linkCredentials)
  }
  for (const kind of KINDS) {
    const pages = source[kind]
    if (pages) await takeOver(kind, pages as Pages<ImportedKinds[typeof kind]>)
  }
  return report
}

interface Run {
  source: ImportSource
  options: ImportOptions
  report: ImportReport
  foreignKids: Set<string>
  planned: Map<string, string>
}

function writePage<T>(
  { source, options, report, foreignKids, planned }: Run,
  kind: Kind,
  page: readonly (T | Unreadable)[],
  write: WritePage<T>,
): Promise<Outcome[]> {
  const { audit, actor, isDryRun, box } = options
  const checked = page.map((one) => (isUnreadable(one) || kind === 'audit_entries' ? one : withoutNul(one)))
  const readable = checked.filter((one): one is T => !isUnreadable(one))
  const unreadable = checked.filter(isUnreadable)
  return audit.transaction(actor, async (tx, note) => {
    let revocations = 0
    const queries = queriesOf(tx)
    if (!isDryRun) await silenceEvents(queries)
    const revoked = (count: number) => {
      revocations += count
    }
    const context = { tx, queries, note, source: source.name, isDryRun, box, foreignKids, planned, revoked }
    const outcomes = await write(readable, context)
    const [made, changed] = [countOf(outcomes, 'new'), countOf(outcomes, 'changed')]
    if (!isDryRun && kind !== 'audit_entries' && made + changed + revocations > 0)
      note('import.write', { from: source.name, kind, new: made, changed, revocations })
    report.revocations += revocations
    return [...outcomes, ...unreadable.map(({ name, unreadable: skipped }) => ({ name, skipped }))]
  })
}

/** PostgreSQL keeps no U+0000: one such text would end the whole run. The audit log replaces it. */
function withoutNul<T>(one: T): T | Unreadable {
  if (!hasNul(one)) return one
  const [name = ''] = Object.values(Object(one)).filter((value) => typeof value === 'string')
  return { name: name.replaceAll('\0', '\ufffd'), unreadable: 'it has the character U+0000, which cannot be stored' }
}

const isUnreadable = (one: unknown): one is Unreadable =>
  typeof one === 'object' && one !== null && 'unreadable' in one && typeof one.unreadable === 'string'

const countOf = (outcomes: readonly Outcome[], wanted: Outcome) => outcomes.filter((one) => one === wanted).length

function count(counts: KindReport, outcomes: readonly Outcome[]): void {
  counts.read += outcomes.length
  for (const outcome of outcomes) {
    if (typeof outcome === 'string') counts[outcome] += 1
    else {
      counts.skipped += 1
      const { name, skipped: reason } = outcome
      if (counts.first_skipped.length < MOST_NAMED) counts.first_skipped.push({ name, reason })
    }
  }
}

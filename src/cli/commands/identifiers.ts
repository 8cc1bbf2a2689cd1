/**
 * `chancery identifiers …`, and `chancery accounts allow`, `disallow` and `allowed`: the identifiers
 * that accounts and binding credentials may request.
 */

import type { Config } from '../../config/schema.ts'
import { type AllowedIdentifier, parseAllowedIdentifier } from '../../domain/allowlist.ts'
import { AllowedIdentifiers } from '../../services/admin/allowed-identifiers.ts'
import { UsageError } from '../../shared/command-line/options.ts'
import type { IdentifierRow, IdentifierWithAccounts } from '../../store/admin/identifier-store.ts'
import { tell } from '../table.ts'
import { CommandError } from '../values.ts'
import { type Administration, withAdministration } from './administration.ts'
import { type GrantTarget, ofAccount, requireCredential, requireOneTarget } from './grant-targets.ts'

type Work<T> = (identifiers: AllowedIdentifiers, administration: Administration) => Promise<T>

function withIdentifiers<T>(config: Config, work: Work<T>): Promise<T> {
  return withAdministration(config, (administration) => work(new AllowedIdentifiers(administration), administration))
}

export function allowIdentifiers(
  config: Config,
  { account, eab }: GrantTarget,
  typed: readonly string[],
  json: boolean,
) {
  requireOneTarget({ account, eab })
  const wanted = requireSome(typed, 'allow')
  return withIdentifiers(config, async (identifiers, { db, actor }) => {
    if (account !== undefined) await ofAccount(account, identifiers.allowNames(actor, account, wanted))
    else await identifiers.grantNames(actor, (await requireCredential(db, eab as string)).id, wanted)
    return told(json, 'allowed', wanted)
  })
}

/** @returns 1 when some of the identifiers were not allowed before */
export function disallowIdentifiers(
  config: Config,
  { account, eab }: GrantTarget,
  typed: readonly string[],
  json: boolean,
) {
  requireOneTarget({ account, eab })
  const wanted = requireSome(typed, 'disallow')
  return withIdentifiers(config, async (identifiers, { db, actor }) => {
    const outcomes = await (account !== undefined
      ? ofAccount(account, identifiers.disallowNames(actor, account, wanted))
      : identifiers.withdrawNames(actor, (await requireCredential(db, eab as string)).id, wanted))
    const whose = account === undefined ? 'credential' : 'account'
    const sentences = {
      absent: (value: string) => `missing  ${value} was not allowed to this ${whose}`,
      kept: (value: string) => `removed  ${value}; its credential still grants it`,
      removed: (value: string) => `removed  ${value}`,
    }
    tell(
      json,
      outcomes.map(({ identifier, outcome }) => ({ identifier: identifier.value, outcome })),
      ...outcomes.map(({ identifier, outcome }) => sentences[outcome](identifier.value)),
    )
    return outcomes.every(({ outcome }) => outcome !== 'absent') ? 0 : 1
  })
}

export function listIdentifiers(config: Config, { account, eab }: GrantTarget, json: boolean): Promise<number> {
  if (account !== undefined && eab !== undefined) requireOneTarget({ account, eab })
  return withIdentifiers(config, async (identifiers, { db }) => {
    if (account !== undefined)
      print((await ofAccount(account, identifiers.ofAccount(account, ALL))).rows, json, 'to this account')
    else if (eab !== undefined) {
      const { id } = await requireCredential(db, eab)
      print((await identifiers.ofCredential(id, ALL)).rows, json, 'to this credential')
    } else print(await identifiers.list(), json, 'to anybody')
    return 0
  })
}

export function createIdentifiers(config: Config, typed: readonly string[], json: boolean): Promise<number> {
  const wanted = requireSome(typed, 'create')
  return withIdentifiers(config, async (identifiers, { actor }) => {
    for (const identifier of wanted) await identifiers.create(actor, identifier)
    return told(json, 'created', wanted)
  })
}

export function deleteIdentifiers(config: Config, typed: readonly string[], json: boolean): Promise<number> {
  const wanted = requireSome(typed, 'delete')
  return withIdentifiers(config, async (identifiers, { actor }) => {
    const all = await identifiers.list()
    for (const { type, value } of wanted) {
      const found = all.find((row) => row.identifier_type === type && row.identifier_value === value)
      if (!found) throw new CommandError(`there is no allowed identifier ${value}`)
      await identifiers.delete(actor, found.id)
    }
    return told(json, 'deleted', wanted)
  })
}

function told(json: boolean, outcome: string, identifiers: readonly AllowedIdentifier[]): number {
  tell(
    json,
    identifiers.map(({ value }) => ({ identifier: value, outcome })),
    ...identifiers.map(({ value }) => `${outcome}  ${value}`),
  )
  return 0
}
const ALL = { limit: 1_000_000, offset: 0, cursor: undefined }

/** Sorted by type and value, as people look for them. */
function print(rows: readonly (IdentifierRow | IdentifierWithAccounts)[], json: boolean, to: string): void {
  if (json) {
    console.log(JSON.stringify({ identifiers: rows }, null, 2))
    return
  }
  const lines = rows.map((row) => {
    const accounts = 'account_ids' in row ? `  accounts ${row.account_ids.length}` : ''
    return `${row.identifier_type}  ${row.identifier_value}${accounts}`
  })
  for (const line of lines.sort()) console.log(line)
  if (rows.length === 0) console.log(`nothing is allowed ${to}`)
}

function requireSome(typed: readonly string[], verb: string): AllowedIdentifier[] {
  const wanted = identifiersOf(typed)
  if (wanted.length > 0) return wanted
  throw new UsageError(`name at least one identifier to ${verb}`)
}

/** The identifiers in normal form, without duplicates. @throws UsageError for the first invalid one */
export function identifiersOf(typed: readonly string[]): AllowedIdentifier[] {
  const identifiers = typed.map((pattern) => {
    const parsed = parseAllowedIdentifier(pattern)
    if (!parsed.ok) throw new UsageError(`${JSON.stringify(pattern)} ${parsed.reason}`)
    return parsed.identifier
  })
  return [...new Map(identifiers.map((identifier) => [identifier.value, identifier])).values()]
}

/**
 * `chancery account allow`, `disallow` and `allowed`: the identifiers that one account may request.
 */

import type { Config } from '../../config/schema.ts'
import { type AllowedIdentifier, parseAllowedIdentifier } from '../../domain/allowlist.ts'
import { isUuid, uuidv7 } from '../../shared/lib/uuid.ts'
import { createAllowlistStore, type NewAllowedIdentifier } from '../../store/allowlist-store.ts'
import { CommandError, UsageError } from './errors.ts'
import { withDatabase } from './operator-database.ts'

export async function allowToAccount(config: Config, accountId: string, patterns: readonly string[]): Promise<number> {
  requireAccountId(accountId)
  const identifiers = newIdentifiersOf(patterns)
  if (identifiers.length === 0) throw new UsageError('name at least one identifier to allow')
  return withDatabase(config, async (db) => {
    const known = await createAllowlistStore(db).allow(accountId, identifiers)
    if (!known) throw new CommandError(`there is no account ${accountId}`)
    for (const { value } of identifiers) console.log(`allowed  ${value}`)
    return 0
  })
}

/** @returns 1 when some of the identifiers were not allowed before */
export async function disallowToAccount(
  config: Config,
  accountId: string,
  patterns: readonly string[],
): Promise<number> {
  requireAccountId(accountId)
  const identifiers = identifiersOf(patterns)
  if (identifiers.length === 0) throw new UsageError('name at least one identifier to disallow')
  return withDatabase(config, async (db) => {
    const removed = await createAllowlistStore(db).disallow(accountId, identifiers)
    const gone = new Set(removed.map(({ value }) => value))
    for (const { value } of identifiers)
      console.log(gone.has(value) ? `removed  ${value}` : `missing  ${value} was not allowed to this account`)
    return gone.size === identifiers.length ? 0 : 1
  })
}

export async function listAllowed(config: Config, accountId: string): Promise<number> {
  requireAccountId(accountId)
  return withDatabase(config, async (db) => {
    const allowed = await createAllowlistStore(db).find(accountId)
    for (const { type, value } of allowed) console.log(`${type}  ${value}`)
    if (allowed.length === 0) console.log('nothing is allowed to this account')
    return 0
  })
}

function requireAccountId(text: string): void {
  if (!isUuid(text))
    throw new UsageError(`${JSON.stringify(text)} is no account id; it is the last part of the account URL`)
}

/** @throws UsageError for the first invalid pattern */
export function newIdentifiersOf(patterns: readonly string[]): NewAllowedIdentifier[] {
  return identifiersOf(patterns).map((identifier) => ({ id: uuidv7(Date.now()), ...identifier }))
}

/** The identifiers in normal form, without duplicates. */
function identifiersOf(patterns: readonly string[]): AllowedIdentifier[] {
  const identifiers = patterns.map((pattern) => {
    const parsed = parseAllowedIdentifier(pattern)
    if (!parsed.ok) throw new UsageError(`${JSON.stringify(pattern)} ${parsed.reason}`)
    return parsed.identifier
  })
  return [...new Map(identifiers.map((identifier) => [identifier.value, identifier])).values()]
}

/** `chancery identifiers …` and `accounts allow|disallow`: what accounts and binding credentials may request. */

import { type AllowedIdentifier, parseAllowedIdentifier } from '../../domain/allowlist.ts'
import { UsageError } from '../../shared/command-line.ts'
import { tell } from '../printing.ts'
import type { AdminCaller } from './admin-caller.ts'
import { type AdminCommand, adminCommand } from './admin-command.ts'
import { accountTarget, type GrantTarget, ofAccount, requireOneTarget, TARGET } from './grant-targets.ts'

export const IDENTIFIER_COMMANDS: readonly AdminCommand[] = [
  adminCommand({
    usage: 'identifiers create <identifier>',
    about: 'Make identifiers: names, *.name, addresses, networks; several may follow',
    examples: ["identifiers create '*.a.example.com' 10.1.0.0/16"],
    further: true,
    run: (caller, { json }, words) => create(caller, words, json),
  }),
  adminCommand({
    usage: 'identifiers delete <identifier>',
    about: 'Delete identifiers; no account and no credential has them any more',
    examples: ['identifiers delete 10.1.0.0/16'],
    further: true,
    run: (caller, { json }, words) => remove(caller, words, json),
  }),
  adminCommand({
    usage: 'identifiers allow <identifier>',
    approval: true,
    about: 'Allow identifiers to an account itself, or to a credential and its accounts; several may follow',
    options: TARGET,
    examples: ["identifiers allow '*.a.example.com' --eab team-a"],
    further: true,
    run: (caller, { json, ...target }, words) => change(caller, target, 'allow', words, json),
  }),
  adminCommand({
    usage: 'identifiers disallow <identifier>',
    about: 'Take them away; an account keeps what its credential grants',
    options: TARGET,
    examples: ["identifiers disallow '*.a.example.com' --eab team-a"],
    further: true,
    run: (caller, { json, ...target }, words) => change(caller, target, 'disallow', words, json),
  }),
  adminCommand({
    usage: 'accounts allow <id>',
    approval: true,
    about: 'Allow identifiers to an account: names, *.name, addresses, networks',
    examples: ["accounts allow 01938c4e-… host.example.com '*.a.example.com'"],
    further: true,
    run: (caller, { json }, [id, ...words]) => change(caller, accountTarget(id), 'allow', words, json),
  }),
  adminCommand({
    usage: 'accounts disallow <id>',
    about: 'Take allowed identifiers away from an account',
    examples: ['accounts disallow 01938c4e-… host.example.com'],
    further: true,
    run: (caller, { json }, [id, ...words]) => change(caller, accountTarget(id), 'disallow', words, json),
  }),
]

async function create(caller: AdminCaller, typed: readonly string[], json: boolean): Promise<number> {
  const wanted = identifiersOf(typed)
  for (const { type, value } of wanted) await caller.call('createAllowedIdentifier', { body: { type, value } })
  return told(json, 'created', wanted)
}

async function remove(caller: AdminCaller, typed: readonly string[], json: boolean): Promise<number> {
  const wanted = identifiersOf(typed)
  for (const { value } of wanted) {
    const identifier_id = await caller.idOf('identifier_id', value)
    await caller.call('deleteAllowedIdentifier', { params: { identifier_id } })
  }
  return told(json, 'deleted', wanted)
}

function told(json: boolean, outcome: string, identifiers: readonly AllowedIdentifier[]): number {
  tell(
    json,
    identifiers.map(({ value }) => ({ identifier: value, outcome })),
    ...identifiers.map(({ value }) => `${outcome}  ${value}`),
  )
  return 0
}

/** @returns 1 when some of the identifiers were not allowed before */
async function change(
  caller: AdminCaller,
  target: GrantTarget,
  verb: 'allow' | 'disallow',
  typed: readonly string[],
  json: boolean,
): Promise<number> {
  requireOneTarget(target)
  const wanted = identifiersOf(typed)
  if (wanted.length === 0) throw new UsageError(`name at least one identifier to ${verb}`)
  const body = { [verb]: wanted.map(({ value }) => value) }
  const outcomes = await send(caller, target, body)
  const whose = target.account === undefined ? 'credential' : 'account'
  const lines = {
    allowed: (value: string) => `allowed  ${value}`,
    absent: (value: string) => `missing  ${value} was not allowed to this ${whose}`,
    kept: (value: string) => `removed  ${value}; its credential still grants it`,
    removed: (value: string) => `removed  ${value}`,
  }
  tell(json, outcomes, ...outcomes.map(({ identifier, outcome }) => lines[outcome](identifier)))
  return outcomes.every(({ outcome }) => outcome !== 'absent') ? 0 : 1
}

async function send(caller: AdminCaller, { account, eab = '' }: GrantTarget, body: { allow?: string[] }) {
  if (account !== undefined)
    return ofAccount(account, caller.call('changeIdentifiersOfAccount', { params: { account_id: account }, body }))
  const cred_id = await caller.idOf('cred_id', eab)
  return caller.call('changeIdentifiersOfEab', { params: { cred_id }, body })
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

/**
 * Commands about the names that accounts may request: `chancery identifiers …`, `accounts allow|disallow`, and
 * `eab create`, which makes a credential of external account binding (RFC 8555 §7.3.4) with its grants.
 */

import { SUMMARIES } from '../../admin/summaries.ts'
import { type AllowedIdentifier, parseAllowedIdentifier } from '../../domain/allowlist.ts'
import { optional, several, UsageError, type Values } from '../../shared/command-line.ts'
import { isKid } from '../../shared/protocol/external-account-binding.ts'
import { tell } from '../printing.ts'
import {
  accountTarget,
  CommandError,
  type GrantTarget,
  instant,
  ofAccount,
  Refusal,
  requireOneTarget,
  TARGET,
  text,
  whole,
} from '../values.ts'
import type { AdminCaller } from './admin-caller.ts'
import { type AdminCommand, adminCommand } from './admin-command.ts'

const IDENTIFIER_COMMANDS: readonly AdminCommand[] = [
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
function identifiersOf(typed: readonly string[]): AllowedIdentifier[] {
  const identifiers = typed.map((pattern) => {
    const parsed = parseAllowedIdentifier(pattern)
    if (!parsed.ok) throw new UsageError(`${JSON.stringify(pattern)} ${parsed.reason}`)
    return parsed.identifier
  })
  return [...new Map(identifiers.map((identifier) => [identifier.value, identifier])).values()]
}

const CREDENTIAL_OPTIONS = {
  kid: optional('Key id, by which the client names the credential; or the first word', String),
  label: optional('A note for the operator', text),
  tag: several('Tag that its accounts get; repeat for several', text),
  allow: several(
    'Identifiers its accounts may ask for: a name, *.name, an address, a network; several may follow',
    text,
  ),
  'csr-profile': optional('Name of the CSR profile its accounts get', text),
  profile: several(
    'CA profile its accounts may order, the one for orders without a choice first; repeat for several',
    text,
  ),
  preapprove: several('Network from which allowed identifiers need no challenge; repeat for several', text),
  expires: optional('Date or RFC 3339 time from which no account registers with it', instant),
  'max-uses': optional('Accounts that may register with it, whatever acme.eab_reusable says', whole(1, 1_000_000)),
  from: several('Network from which accounts may register with it; repeat for several', text),
}

const EAB_CREATE = adminCommand({
  usage: 'eab create',
  approval: true,
  about: SUMMARIES.createEabCredential,
  options: CREDENTIAL_OPTIONS,
  examples: ["eab create team-a --allow '*.a.example.com' 10.1.0.0/16"],
  further: true,
  run: createCredential,
})

type Wanted = Values<typeof CREDENTIAL_OPTIONS>

async function createCredential(
  caller: AdminCaller,
  { json, ...wanted }: Wanted & { json: boolean },
  words: readonly string[],
): Promise<number> {
  const { kid, allow } = placed(wanted, words)
  if (!isKid(kid)) throw new UsageError('--kid takes a key id of 1 to 255 characters')
  const {
    label,
    profile: profiles,
    preapprove,
    expires,
    'max-uses': max_uses,
    from,
    tag,
    'csr-profile': profile,
  } = wanted
  const identifiers = identifiersOf(allow).map(({ value }) => value)
  if (preapprove.length > 0 && identifiers.length === 0)
    throw new UsageError('--preapprove needs --allow: only identifiers allowed to the credential are pre-approved')
  const some = <T>(values: T[]) => (values.length > 0 ? values : undefined)
  const made = caller.call('createEabCredential', {
    body: {
      kid,
      label,
      tags: some(tag),
      max_uses,
      expires_at: expires?.toISOString(),
      profiles: some(profiles),
      preapproved_networks: some(preapprove),
      allowed_networks: some(from),
      allowed_identifiers: some(identifiers),
      csr_profile_id: profile === undefined ? undefined : await caller.idOf('profile_id', profile),
    },
  })
  const body = await made.catch(inOptions)
  tell(json, body, `kid       ${kid}`, `hmac_key  ${body.hmac_key}`)
  process.stderr.write('The HMAC key is not shown again.\n')
  return 0
}

const OPTION_OF: Readonly<Record<string, string>> = {
  tags: '--tag',
  profiles: '--profile',
  preapproved_networks: '--preapprove',
  allowed_networks: '--from',
  expires_at: '--expires',
  max_uses: '--max-uses',
  allowed_identifiers: '--allow',
}

/** Names options in place of members. */
function inOptions(error: unknown): never {
  const fields = error instanceof Refusal ? error.fields : []
  if (fields.length === 0) throw error
  throw new CommandError(
    fields.map(({ field, message }) => `${OPTION_OF[field] ?? `--${field}`}: ${message}`).join('\n'),
  )
}

/** Words are the key id where no option has it, then further identifiers behind `--allow`. */
function placed({ kid: named, allow, profile, preapprove, from, tag }: Wanted, words: readonly string[]) {
  const [kid = '', ...further] = named === undefined ? words : [named, ...words]
  const [extra] = further
  if (extra !== undefined && allow.length === 0) throw new UsageError(`one word too many: ${extra}`)
  // Beside another option with several values it would be unclear whose the words are.
  if (extra !== undefined && profile.length + preapprove.length + from.length + tag.length > 0)
    throw new UsageError(
      `${extra} has no option: beside --profile, --preapprove, --from and --tag, give --allow once for each identifier`,
    )
  return { kid: kid.trim(), allow: [...allow, ...further] }
}

export const GRANT_COMMANDS: readonly AdminCommand[] = [EAB_CREATE, ...IDENTIFIER_COMMANDS]

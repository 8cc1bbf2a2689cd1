/**
 * Decisions of people and clients, recorded in a second place before they are answered
 * (docs/decisions/decisions-outlive-the-database.md). Pure.
 */

import { createHmac } from 'node:crypto'
import * as z from 'zod/v4'
import { AUDIT_ACTIONS, type AuditAction, canonicalJson, isSameMac } from './audit-chain.ts'

/** Clients decide these over ACME. Administrators' acts have the names of their entries in the audit log. */
export const ACME_ACTS = [
  'acme.new_account',
  'acme.update_contacts',
  'acme.deactivate_account',
  'acme.change_key',
  'acme.deactivate_authorization',
  'acme.prove_compromise',
  'acme.revoke',
] as const
export type AcmeAct = (typeof ACME_ACTS)[number]
export type Act = AuditAction | AcmeAct

/**
 * `restricts`: a fail-over that loses it brings it back. `permits`: it is reported as lost, and nobody is given anything by a
 * record. `reports`: nothing but its entry in the audit log outlives it.
 */
type Effect = 'restricts' | 'permits' | 'reports'

export interface Decision {
  id: string
  /** RFC 3339, by the clock of the instance. */
  at: string
  act: Act
  /** For people: a username, a user of the operating system, or an account. */
  by: string
  details: Readonly<Record<string, unknown>>
  /** Its place in the audit log; undefined for an act over ACME. */
  entry?: DecisionEntry | undefined
  /** The incarnation in which it was decided (src/store/incarnation.ts). */
  incarnation?: string | undefined
}

interface DecisionEntry {
  sequence: number
  /** Hexadecimal. */
  mac: string
  id: string
  user_id: string | null
  target_user_id: string | null
  ip_address: string | null
}

/** Which database a decision is of, and the key that says so. */
export interface DatabaseIdentity {
  id: string
  key: Buffer
}

/**
 * A comparison deals with a decision that was missing. `restored`: what it restricts is back. `partly`: what it restricts
 * is back, and what it permits is lost. `lost`: it permits, so a person may repeat it. `overtaken`: a later decision about
 * the same thing counts, or the thing is gone. `entry`: nothing but its entry in the audit log was lost.
 */
export const OUTCOMES = ['restored', 'partly', 'lost', 'overtaken', 'entry'] as const
export type Outcome = (typeof OUTCOMES)[number]
/** A person has something to repeat for these. */
export const OPEN_OUTCOMES = ['lost', 'partly'] as const satisfies readonly Outcome[]

type EffectOf = Effect | ((details: Decision['details']) => Effect)

const restrictsIf =
  (is: (details: Decision['details']) => boolean, otherwise: Effect = 'permits'): EffectOf =>
  (details) =>
    is(details) ? 'restricts' : otherwise

/** Each act of the audit log and of ACME: a new one does not compile without its effect. */
export const EFFECTS = {
  'auth.login': 'reports',
  // A provider has taken the groups from somebody.
  'auth.login_failed': restrictsIf(
    ({ ended_sessions: sessions = 0, revoked_tokens: tokens = 0 }) => Number(sessions) + Number(tokens) > 0,
    'reports',
  ),
  'auth.locked': 'reports',
  'auth.second_factor_asked': 'reports',
  'auth.logout': 'restricts',
  'auth.confirm': 'reports',
  'user.create': 'permits',
  'user.update': 'restricts',
  'user.delete': 'restricts',
  'user.reset_password': 'restricts',
  'user.change_password': 'restricts',
  'user.end_session': 'restricts',
  'user.add_passkey': 'permits',
  'user.rename_passkey': 'reports',
  'user.remove_passkey': 'restricts',
  'user.reset_second_factor': 'restricts',
  'user.unlock': 'reports',
  'user.import': 'permits',
  'token.create': 'permits',
  'token.revoke': 'restricts',
  'approval.request': 'permits',
  'approval.approve': 'restricts',
  'approval.reject': 'restricts',
  'approval.withdraw': 'restricts',
  'approval.collect': 'restricts',
  'approval.emergency': 'reports',
  'eab.create': 'permits',
  'eab.revoke': 'restricts',
  'eab.update': 'restricts',
  'eab.pre_approve': 'permits',
  'eab.add_identifier': 'permits',
  'eab.remove_identifier': 'restricts',
  'eab.assign_csr_profile': 'restricts',
  'eab.unassign_csr_profile': 'permits',
  'eab.reseal': 'reports',
  'identifier.create': 'permits',
  'identifier.delete': 'restricts',
  'identifier.add_account': 'permits',
  'identifier.remove_account': 'restricts',
  'csr_profile.create': 'restricts',
  'csr_profile.update': 'restricts',
  // An account goes back to the profile of its credential, which may be the tighter one.
  'csr_profile.delete': 'restricts',
  'csr_profile.assign': 'restricts',
  'csr_profile.unassign': 'restricts',
  'account.update': 'restricts',
  'account.deactivate': 'restricts',
  // The signer has revocations of its own certificates. Nobody else has the revocation of a certificate of another CA.
  'certificate.revoke': 'restricts',
  'certificate.bulk_revoke': restrictsIf(({ phase }) => phase === 'begun', 'reports'),
  'certificate.import': 'permits',
  'import.write': 'permits',
  'import.audit_entry': 'reports',
  'incident.begin': 'permits',
  'key.block': 'restricts',
  'key.unblock': 'permits',
  'renewal.advise': 'permits',
  'renewal.clear': 'permits',
  'renewal.mute': 'permits',
  'renewal.unmute': 'permits',
  'renewal.notify': 'reports',
  'crl.rebuild': 'reports',
  'notification.retry': 'reports',
  'notification.purge': 'reports',
  'notification.test': 'reports',
  'event.retry': 'reports',
  'backend.revocation_given_up': 'reports',
  'audit.export': 'reports',
  'audit.cut': 'reports',
  'maintenance.set': restrictsIf(({ enabled }) => enabled === true),
  'signing.stop': 'restricts',
  'signing.resume': 'permits',
  'terms.accept': 'permits',
  'settings.reload': 'reports',
  'database.reconcile': 'reports',
  'database.lost_entry': 'reports',
  'database.accept_lost': 'reports',
  'acme.new_account': 'permits',
  'acme.update_contacts': 'restricts',
  'acme.deactivate_account': 'restricts',
  'acme.change_key': 'restricts',
  'acme.deactivate_authorization': 'restricts',
  'acme.prove_compromise': 'restricts',
  // Only where the signer did not take it: else its own records have it.
  'acme.revoke': 'restricts',
} as const satisfies Record<Act, EffectOf>

/** Acts that restrict always, or with some details. */
export type RestrictingAct = {
  [A in Act]: (typeof EFFECTS)[A] extends 'permits' | 'reports' ? never : A
}[Act]

/** Whether both are databases of one cluster and name, of whatever timeline: a fail-over leads from one to the other. */
export function isOneLine(one: string | null | undefined, other: string): boolean {
  const [system, , ...names] = (one ?? '').split('/')
  const [otherSystem, , ...otherNames] = other.split('/')
  return system === otherSystem && names.join() === otherNames.join()
}

export function effectOf({ act, details }: Pick<Decision, 'act' | 'details'>): Effect {
  const effect: EffectOf = EFFECTS[act]
  // A record that was cut does not say what its act did.
  if (details['cut'] === true && typeof effect === 'function') return 'permits'
  return typeof effect === 'function' ? effect(details) : effect
}

const text = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value))

/** Opposite acts are about one thing, so that the later one counts: `add` and `remove` of the same pair, stop and resume. */
const THINGS: { readonly [A in Act]?: (details: Decision['details']) => string | undefined } = {
  'signing.stop': () => 'signing',
  'signing.resume': () => 'signing',
  'maintenance.set': () => 'maintenance',
  'key.block': ({ spki_sha256: key }) => `key ${text(key)}`,
  'key.unblock': ({ spki_sha256: key }) => `key ${text(key)}`,
  'eab.add_identifier': ({ eab_id: id, identifier_id: name }) => `name ${text(name)} of ${text(id)}`,
  'eab.remove_identifier': ({ eab_id: id, identifier_id: name }) => `name ${text(name)} of ${text(id)}`,
  'identifier.add_account': ({ account_id: id, identifier_id: name }) => `name ${text(name)} of ${text(id)}`,
  'identifier.remove_account': ({ account_id: id, identifier_id: name }) => `name ${text(name)} of ${text(id)}`,
  // An account or a credential has one at a time.
  'csr_profile.assign': ({ account_id: id }) => `profile of ${text(id)}`,
  'csr_profile.unassign': ({ account_id: id }) => `profile of ${text(id)}`,
  'eab.assign_csr_profile': ({ eab_id: id }) => `profile of ${text(id)}`,
  'eab.unassign_csr_profile': ({ eab_id: id }) => `profile of ${text(id)}`,
  // One that was refused or cancelled does not begin again; one that has ended may.
  'certificate.bulk_revoke': ({ job_id: id, phase }) => (phase === undefined ? undefined : `job ${text(id)}`),
  'renewal.mute': ({ serial_numbers: which }) => `mute ${text(which)}`,
  'renewal.unmute': ({ serial_numbers: which }) => `mute ${text(which)}`,
  'acme.prove_compromise': ({ spki_sha256: key }) => `key ${text(key)}`,
}

/** @returns undefined where a decision stands for itself */
export const thingOf = ({ act, details }: Pick<Decision, 'act' | 'details'>): string | undefined =>
  THINGS[act]?.(details)

/** Members that name what an act was about, the best first. */
const NAMES = [
  ...['username', 'kid', 'identifier_value', 'spki_sha256', 'serial_number', 'authorization_id', 'account_id'],
  ...['label', 'name', 'summary', 'eab_id', 'job_id', 'session_id', 'token_id', 'passkey_id', 'incident_id'],
]

/** Says for people what it was about; empty where its act says all. */
export function subjectOf({ details, entry }: Pick<Decision, 'details' | 'entry'>): string {
  const named = NAMES.map((name) => details[name]).find((value) => typeof value === 'string')
  return (named as string | undefined) ?? entry?.target_user_id ?? ''
}

/** The same in every spelling of its JSON. */
function decisionSeal({ key }: DatabaseIdentity, decision: Decision): Buffer {
  return createHmac('sha256', key).update('decision ').update(canonicalJson(decision)).digest()
}

const Entry = z.object({
  sequence: z.int().min(1),
  mac: z.string().regex(/^[0-9a-f]{64}$/),
  id: z.uuid(),
  user_id: z.uuid().nullable(),
  target_user_id: z.uuid().nullable(),
  ip_address: z.string().max(64).nullable(),
})

const Recorded = z.object({
  database: z.string(),
  seal: z.string().regex(/^[0-9a-f]{64}$/),
  id: z.uuid(),
  at: z.iso.datetime(),
  act: z.enum([...AUDIT_ACTIONS, ...ACME_ACTS]),
  by: z.string().max(400),
  details: z.record(z.string(), z.unknown()),
  entry: Entry.optional(),
  incarnation: z.string().max(200).optional(),
})

/**
 * `foreign`: another database uses the same place. `damaged`: it says that it is of this one, and its seal does not. `unknown`: a
 * later release made it.
 */
type ReadDecision = Decision | 'foreign' | 'damaged' | 'unknown'

export function recorded(identity: DatabaseIdentity, decision: Decision): Record<string, unknown> {
  return { database: identity.id, seal: decisionSeal(identity, decision).toString('hex'), ...decision }
}

function isSealed(
  identity: DatabaseIdentity,
  { database: _, seal, ...rest }: Readonly<Record<string, unknown>>,
): boolean {
  try {
    return typeof seal === 'string' && isSameMac(Buffer.from(seal, 'hex'), decisionSeal(identity, rest as never))
  } catch {
    // Thousands of lists in each other: nobody has sealed that.
    return false
  }
}

export function readDecision(identity: DatabaseIdentity, value: Readonly<Record<string, unknown>>): ReadDecision {
  if (value['database'] !== identity.id) return typeof value['database'] === 'string' ? 'foreign' : 'damaged'
  if (!isSealed(identity, value)) return 'damaged'
  const parsed = Recorded.safeParse(value)
  if (!parsed.success) return 'unknown'
  const { database: _of, seal: _seal, ...decision } = parsed.data
  return decision
}

/**
 * All kinds of events in one table, with the payload of each.
 *
 * The types, the export, the documents of receivers and the samples of mails derive from it (docs/decisions/events.md).
 */

import * as z from 'zod/v4'

interface Kind<P extends z.ZodObject = z.ZodObject> {
  /** One sentence for docs/hooks.md. */
  says: string
  payload: P
  /** Whether a hook without `events` is told. */
  isToldToHooks?: boolean
  /** Whether the audit log's file, its webhook and syslog leave it out. */
  isNotAudited?: boolean
  isFailure?: boolean
  /** RFC 5424 §6.2.1; `notice` when absent. */
  severity?: number
}

const kind = <P extends z.ZodRawShape>(says: string, payload: P, more: Omit<Kind, 'says' | 'payload'> = {}) => ({
  says,
  payload: z.strictObject(payload),
  ...more,
})

/** What a client or an account could not do: the console shows the last of each account, and why. */
const failure = <P extends z.ZodRawShape>(says: string, payload: P, more: Omit<Kind, 'says' | 'payload'> = {}) => ({
  ...kind(says, payload, { severity: WARNING, ...more }),
  isFailure: true as const,
})

const CRITICAL = 2
const ERROR = 3
const WARNING = 4
const NOTICE = 5

const text = z.string()
const texts = z.array(text).readonly()
const id = text
const time = z.iso.datetime()
const count = z.int()
const identifier = z.strictObject({ type: text, value: text })
const identifiers = z.array(identifier).readonly()
/** As the client was told (RFC 8555 §6.7), or the detail alone. */
const problem = z.strictObject({
  type: text.optional(),
  detail: text,
  status: count.optional(),
  subproblems: z
    .array(z.strictObject({ type: text, detail: text, identifier: identifier.optional() }))
    .readonly()
    .optional(),
  algorithms: texts.optional(),
  instance: text.optional(),
})
const absentOf = (what: string) => `absent when ${what}`
const certificate = { certificate_id: id, account_id: id.nullable(), serial_number: text, domains: texts }
/** Written a moment after the change, when retention may have removed what they are about. */
const removable = {
  serial_number: text.optional().describe(absentOf('the certificate was deleted')),
  domains: texts.optional().describe(absentOf('the certificate was deleted')),
}
const orders = identifiers.optional().describe(absentOf('the order was deleted'))
const attempt = {
  challenge_type: text,
  token: text,
  identifier_type: text,
  identifier_value: text,
  authorization_id: id,
  account_id: id,
}
const failedAttempt = { ...attempt, error: text, problem: text.optional() }
const deactivated = { account_id: id, deactivated_authorizations: count }

export const EVENTS = {
  'account.registration': kind(
    'An account was registered.',
    { account_id: id, contacts: texts, jwk_thumbprint: text, tos_agreed: z.boolean() },
    { isToldToHooks: true },
  ),
  'account.registration_failed': kind('A registration was refused for its contacts: one event a minute and thread.', {
    contacts: texts,
    error: problem,
    refused: count.describe('how many since the last event'),
  }),
  'account.deactivation': kind('Its holder has deactivated an account.', deactivated),
  'account.revocation': kind(
    'An administrator has revoked an account, or the credential that it was registered with.',
    deactivated,
  ),
  'account.key_change': kind('An account has another key.', {
    account_id: id,
    old_thumbprint: text,
    new_thumbprint: text,
  }),
  'order.creation': kind(
    'An order was created.',
    { order_id: id, account_id: id, identifiers, authz_ids: z.array(id).readonly() },
    { isToldToHooks: true },
  ),
  'order.rejected': failure('An order was refused.', {
    account_id: id,
    error: problem,
    rejected_identifiers: identifiers.describe('empty where it was refused for something else'),
    attempted_identifiers: identifiers.describe('empty where the request could not be read').default([]),
  }),
  'order.csr_refused': failure('A CSR was refused.', {
    account_id: id,
    order_id: id,
    identifiers: orders,
    error: problem,
  }),
  'order.quota_exceeded': failure('The quota of an account is used up.', {
    account_id: id,
    quota: text,
    limit: count,
    attempted_identifiers: identifiers,
  }),
  'order.recovered': kind('An interrupted issuance has ended with a certificate.', {
    order_id: id,
    account_id: id.optional(),
    certificate_id: id,
    identifiers: orders,
  }),
  'challenge.before_validate': kind('An attempt to validate a challenge begins.', attempt, {
    isToldToHooks: true,
    isNotAudited: true,
  }),
  'challenge.after_validate': kind('A challenge is valid.', { ...attempt, result: text }, { isToldToHooks: true }),
  'challenge.on_failure': failure('A challenge is invalid.', failedAttempt, { isToldToHooks: true }),
  'challenge.on_retry': kind(
    'An attempt has failed, and another one follows.',
    { ...failedAttempt, retry_count: count, backoff_seconds: z.number() },
    { isToldToHooks: true },
  ),
  'authorization.deactivation': kind('Its holder has deactivated an authorization.', {
    authorization_id: id,
    account_id: id,
    identifier_type: text,
    identifier_value: text,
    invalidated_orders: z.array(id).readonly(),
  }),
  'certificate.issuance': kind(
    'A certificate was issued or imported.',
    {
      ...certificate,
      order_id: id.nullable(),
      not_after: time,
      revoked_at: time.optional().describe('where it came too late for its order'),
    },
    { isToldToHooks: true },
  ),
  'certificate.issuance_failed': failure(
    'An order failed after finalize.',
    { order_id: id, account_id: id, identifiers, error: problem.nullable() },
    { severity: ERROR },
  ),
  'certificate.revocation': kind(
    'A certificate was revoked, or the reason became keyCompromise.',
    { ...certificate, reason: text },
    { isToldToHooks: true },
  ),
  'certificate.revocation_failed': kind(
    'The CA has not confirmed a revocation and is asked again: the first failure of each.',
    {
      certificate_id: id,
      account_id: id.nullish(),
      ...removable,
      backend: text,
      reason: text,
      error: problem,
    },
    { severity: ERROR },
  ),
  'certificate.delivery': kind(
    'An account has downloaded its certificate.',
    { certificate_id: id, account_id: id, ...removable },
    { isToldToHooks: true },
  ),
  'certificate.expiration': kind('A certificate expires soon.', {
    ...certificate,
    not_after: time,
    warning_days: count.describe('the threshold it has passed'),
  }),
  'ct.submission': kind(
    'A transparency log has signed a timestamp.',
    {
      certificate_id: id,
      serial_number: text,
      ct_log_url: text,
      sct: z.strictObject({
        id: text,
        timestamp: count,
        extensions: text,
        signature: text,
        verified: z.boolean(),
      }),
    },
    { isToldToHooks: true },
  ),
  'crl.publication': kind('A CRL was published.', {
    issuer: text,
    shard: count,
    number: count,
    entries: count,
    this_update: time,
    next_update: time,
  }),
  'admin.action': kind('An administrator has done what the audit log records.', {
    id,
    user_id: id.nullable().describe('null for the command line'),
    action: text,
    target_user_id: id.nullable(),
    details: z.looseObject({ operator: text.optional() }),
    ip_address: text.nullable(),
    created_at: time,
  }),
  'abuse.summary': kind(
    'What strangers were refused within a minute: one event for each kind of refusal.',
    { refusal: text, count, from: time, until: time, instance: count },
    { severity: WARNING },
  ),
  alarm: kind(
    'An operator must look. The message says why, and the ids what it is about.',
    {
      message: text,
      reason: text.optional(),
      crl: text.optional(),
      account_id: id.optional(),
      order_id: id.optional(),
      certificate_id: id.optional(),
      serial_number: text.optional(),
      backend: text.optional(),
      lines: texts.optional().describe('what a person reads below the reason, such as acts that were lost'),
    },
    { severity: CRITICAL },
  ),
} as const satisfies Readonly<Record<string, Kind>>

export type EventKind = keyof typeof EVENTS
/** The kinds made by `failure`. */
export type FailureKind = { [K in EventKind]: (typeof EVENTS)[K] extends { isFailure: true } ? K : never }[EventKind]
export type EventData<K extends EventKind = EventKind> = z.infer<(typeof EVENTS)[K]['payload']>

interface Occurrence {
  /** UUID; a repeated delivery has the same. */
  id: string
  /** Events of one subject come in their order. */
  subject: string
  accountId: string | undefined
  occurredAt: Date
  /** The fault of a stored payload; it is delivered as it is, and no mail is made of it. */
  misfit?: string
}

export type EventOf<K extends EventKind> = Occurrence & { kind: K; data: EventData<K> }
export type OccurredEvent = { [K in EventKind]: EventOf<K> }[EventKind]

/** An event that changes no row, as its writer makes it; the store adds what it reads itself. */
export type NewEvent = { [K in EventKind]: Pick<EventOf<K>, 'kind' | 'subject' | 'accountId' | 'data'> }[EventKind]

const isKnown = (name: string): name is EventKind => Object.hasOwn(EVENTS, name)
export const EVENT_KINDS: readonly EventKind[] = Object.keys(EVENTS).filter(isKnown)
const kindsThat = (are: (one: Kind) => boolean) => EVENT_KINDS.filter((name) => are(EVENTS[name]))

export const HOOK_KINDS = kindsThat(({ isToldToHooks = false }) => isToldToHooks)
export const AUDIT_KINDS = kindsThat(({ isNotAudited = false }) => !isNotAudited)
export const FAILURE_KINDS = kindsThat(({ isFailure = false }) => isFailure)

export function severityOf(name: EventKind): number {
  const { severity = NOTICE }: Kind = EVENTS[name]
  return severity
}

/** Members of a payload, with what docs/hooks.md says beside some. */
export function membersOf(name: EventKind): { name: string; note: string | undefined }[] {
  const shape: Readonly<Record<string, z.ZodType>> = EVENTS[name].payload.shape
  return Object.entries(shape).map(([member, schema]) => ({
    name: member,
    note: schema.description ?? (schema.isOptional() ? 'may be absent' : undefined),
  }))
}

/** `chancery inspect order | certificate | account`: the database's record of one of them, as text or JSON. */

import { createHash } from 'node:crypto'
import {
  createInspectStore,
  type InspectedAuthorization,
  type InspectedCertificate,
  type InspectStore,
  MAX_COUNTED,
  MAX_STATUSES_COUNTED,
} from '../../admin/certificates/inspect-store.ts'
import { revocationReasonName } from '../../domain/revocation.ts'
import { orderStatus } from '../../domain/states.ts'
import { databaseSettings } from '../../settings/server-settings.ts'
import { UsageError } from '../../shared/command-line.ts'
import { isUuid, uuidTime } from '../../shared/lib/uuid.ts'
import { fingerprintSha256, parseCertificate } from '../../shared/pki/certificate.ts'
import { type ChallengeType, challengeId } from '../../shared/protocol/challenge.ts'
import { renderTimestamp } from '../../shared/protocol/timestamp.ts'
import { openCheckedDatabase } from '../../store/slonik.ts'
import { readConfigFile } from '../config-file.ts'
import { type Report, renderText, tell } from '../printing.ts'
import { CommandError, type Printing } from '../values.ts'

/** A token proves nothing without the account key, but output ends up in tickets. */
const TOKEN_SHOWN = 16

export async function inspectOrder(options: Printing, id: string): Promise<number> {
  requireUuid(id)
  return print(options, `order ${id}`, (store) => reportOrder(store, id.toLowerCase()))
}

/** @param key a UUID, or a serial number in hex as openssl or a browser shows it */
export async function inspectCertificate(options: Printing, key: string): Promise<number> {
  const text = key.toLowerCase()
  const serial = text.replaceAll(':', '').replace(/^(?:00)+(?=..)/, '')
  if (isUuid(text))
    return print(options, `certificate ${key}`, async (store) => reportCertificate(await store.findCertificate(text)))
  if (!/^(?:[0-9a-f]{2}){1,20}$/.test(serial))
    throw new UsageError(`${key} is neither a UUID nor a serial number in hex`)
  return print(options, `certificate with serial number ${key}`, async (store) =>
    reportCertificate(await store.findCertificateBySerial(serial)),
  )
}

export async function inspectAccount(options: Printing, id: string): Promise<number> {
  requireUuid(id)
  return print(options, `account ${id}`, (store) => reportAccount(store, id.toLowerCase()))
}

function requireUuid(id: string): void {
  if (!isUuid(id.toLowerCase())) throw new UsageError(`${id} is not a UUID; ids stand at the end of their URLs`)
}

async function print(
  { config: file, json }: Printing,
  what: string,
  read: (store: InspectStore) => Promise<Report | undefined>,
): Promise<number> {
  const db = await openCheckedDatabase(databaseSettings(await readConfigFile(file), 1))
  try {
    const report = await read(createInspectStore(db))
    if (!report) throw new CommandError(`there is no ${what}`)
    tell(json, report, renderText(report))
    return 0
  } finally {
    await db.end()
  }
}

async function reportOrder(store: InspectStore, id: string): Promise<Report | undefined> {
  const found = await store.findOrder(id)
  if (!found) return undefined
  const { order, authorizations } = found
  const facts = {
    stored: order.status,
    expiresAt: order.expires_at,
    authorizations: authorizations.map(({ status }) => status),
  }
  return {
    id: order.id,
    account_id: order.account_id,
    status: orderStatus(facts, new Date()),
    identifiers: order.identifiers,
    profile: order.profile,
    created_at: renderTimestamp(uuidTime(order.id)),
    expires_at: renderTimestamp(order.expires_at),
    not_before: order.not_before && renderTimestamp(order.not_before),
    not_after: order.not_after && renderTimestamp(order.not_after),
    certificate_id: order.certificate_id,
    error: order.error as Report | null,
    authorizations: authorizations.map(reportAuthorization),
  }
}

function reportAuthorization(authorization: InspectedAuthorization): Report {
  const { identifier_type: type, identifier_value: value, attempts, token } = authorization
  return {
    id: authorization.id,
    identifier: { type, value },
    wildcard: authorization.wildcard,
    status: authorization.status,
    expires_at: renderTimestamp(authorization.expires_at),
    challenges: authorization.offered.map((offered) => ({
      id: challengeId(authorization, offered as ChallengeType),
      type: offered,
      status: attempts[offered]?.status ?? 'pending',
      token: `${token.slice(0, TOKEN_SHOWN)}…`,
      tries: attempts[offered]?.tries ?? 0,
      validated_at: attempts[offered]?.validated ?? null,
      error: (attempts[offered]?.error ?? null) as Report | null,
    })),
    evidence: authorization.evidence && reportEvidence(authorization.evidence),
  }
}

/** The members come in chronological order, which jsonb does not keep; members that this release does not know come last. */
function reportEvidence(evidence: NonNullable<InspectedAuthorization['evidence']>): Report {
  const { type, attempt, result, problem, detail, caa, at, ms, validForSeconds, requestId, steps, omitted, ...others } =
    evidence
  return {
    type,
    attempt,
    result,
    problem,
    detail,
    caa,
    finished_at: at,
    duration_ms: ms,
    valid_for_seconds: validForSeconds,
    request_id: requestId,
    steps,
    omitted_steps: omitted,
    ...others,
  } as Report
}

function reportCertificate(certificate: InspectedCertificate | undefined): Report | undefined {
  if (!certificate) return undefined
  const { tbs } = parseCertificate(certificate.der)
  return {
    id: certificate.id,
    account_id: certificate.account_id,
    order_id: certificate.order_id,
    serial_number: certificate.serial_number,
    fingerprint: fingerprintSha256(certificate.der),
    public_key_fingerprint: createHash('sha256').update(tbs.spki.der).digest('hex'),
    san_values: certificate.names,
    not_before: renderTimestamp(certificate.not_before),
    not_after: renderTimestamp(certificate.not_after),
    status: statusOf(certificate),
    revoked_at: certificate.revoked_at && renderTimestamp(certificate.revoked_at),
    revocation_reason:
      certificate.revocation_reason === null ? null : revocationReasonName(certificate.revocation_reason),
    created_at: renderTimestamp(certificate.issued_at),
  }
}

/** The filters of lists use the same words. */
function statusOf({ revoked_at, not_after }: Pick<InspectedCertificate, 'revoked_at' | 'not_after'>): string {
  return revoked_at ? 'revoked' : not_after < new Date() ? 'expired' : 'active'
}

async function reportAccount(store: InspectStore, id: string): Promise<Report | undefined> {
  const account = await store.findAccount(id)
  if (!account) return undefined
  const { orders, newest } = await store.countOrders(id)
  const byStatus = Object.fromEntries(newest.map((count) => [count.status, count.orders]))
  return {
    id: account.id,
    status: account.status,
    key_thumbprint: account.thumbprint,
    tos_agreed: account.terms_agreed,
    contacts: account.contacts,
    eab_kid: account.eab_kid,
    allowed_profiles: account.allowed_profiles,
    preapproved_networks: account.preapproved_networks,
    former_paths: account.former_paths.length > 0 ? account.former_paths : undefined,
    created_at: renderTimestamp(account.created_at),
    order_count: orders < MAX_COUNTED ? orders : `${MAX_COUNTED} or more`,
    [orders <= MAX_STATUSES_COUNTED ? 'orders_by_status' : 'newest_orders_by_status']: byStatus,
  }
}

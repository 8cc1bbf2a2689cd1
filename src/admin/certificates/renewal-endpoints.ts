/** `/renewals`: advice to clients to renew now (RFC 9773 §4.2). */

import * as z from 'zod/v4'
import { AdminError } from '../../domain/admin-error.ts'
import type { Actor } from '../../domain/administrator.ts'
import { type Scope, scopeOf } from '../../domain/permissions.ts'
import { advisedWindow, type RenewalWindow } from '../../domain/renewal-window.ts'
import { boundedArray } from '../../shared/lib/bounded.ts'
import { type AdviceSelection, createRenewalAdvice } from '../../store/renewal-store.ts'
import { queriesOf } from '../../store/slonik.ts'
import { endpoint, endpointGroup } from '../admin-endpoint.ts'
import type { AuditLog, Transaction } from '../audit/audit-log.ts'
import { fingerprint, instantParameter, serialNumber, time, timestamp, whenSound } from '../schemas.ts'

const filter = () =>
  z
    .strictObject({
      serial_numbers: boundedArray(serialNumber(), 10_000, 1).optional(),
      issuer: fingerprint().optional(),
      issued_before: instantParameter().optional(),
      all: z.literal(true).optional(),
    })
    .refine(({ all, ...others }) => (Object.keys(others).length === 0) === (all === true), {
      error: "must have 'all': true alone, or say which certificates",
      when: whenSound,
    })
    .meta({ description: 'Members combine; certificates that have expired are left out.' })

function selectionOf(
  { serial_numbers, issuer, issued_before }: z.output<ReturnType<typeof filter>>,
  scope: Scope,
): AdviceSelection {
  // The way along all live certificates is long, and hardly any are a registrar's.
  if (scope && !serial_numbers) throw new AdminError('forbidden', 'a registrar names certificates by serial_numbers')
  return {
    scope,
    ...(serial_numbers && { serialNumbers: serial_numbers.map((serial) => Buffer.from(serial, 'hex')) }),
    ...(issuer !== undefined && { issuerFingerprint: Buffer.from(issuer, 'hex') }),
    ...(issued_before && { issuedBefore: issued_before }),
  }
}

export const RENEWALS = endpointGroup('Renewals', {
  adviseRenewal: endpoint({
    route: 'POST /renewals',
    permission: 'advise_renewal',
    scope: 'accounts',
    body: z.strictObject({
      filter: filter(),
      window_end: instantParameter()
        .optional()
        .meta({ description: 'End of the window over which renewals spread; without it, at once.' }),
      explanation_url: z
        .url({ protocol: /^https?$/, error: 'must be an http or https URL' })
        .max(2_048)
        .optional(),
    }),
    reply: {
      status: 200,
      schema: z.strictObject({ certificates: z.int(), window_start: timestamp(), window_end: timestamp() }),
    },
    audit: 'renewal.advise',
    async handle({ body, author }, { audit }) {
      const wanted = { windowEnd: body.window_end, explanationUrl: body.explanation_url }
      const { certificates, window } = await advise(audit, author, selectionOf(body.filter, scopeOf(author)), wanted)
      return { body: { certificates, window_start: time(window.start), window_end: time(window.end) } }
    },
  }),
  clearRenewals: endpoint({
    route: 'DELETE /renewals',
    permission: 'advise_renewal',
    scope: 'accounts',
    body: z.strictObject({ filter: filter() }),
    reply: { status: 200, schema: z.strictObject({ certificates: z.int() }) },
    audit: 'renewal.clear',
    handle: async ({ body, author }, { audit }) => ({
      body: { certificates: await clear(audit, author, selectionOf(body.filter, scopeOf(author))) },
    }),
  }),
})

interface WantedAdvice {
  /** Until when the renewals spread; at once when undefined. */
  windowEnd: Date | undefined
  /** URL of a page that says why. */
  explanationUrl: string | undefined
}

function advise(
  audit: AuditLog,
  actor: Actor,
  selection: AdviceSelection,
  { windowEnd, explanationUrl }: WantedAdvice,
) {
  const now = new Date()
  if (windowEnd && windowEnd <= now) throw new AdminError('invalid_request', 'the end of the window is past')
  const window: RenewalWindow = advisedWindow(now, windowEnd)
  return audit.transaction(actor, async (tx, note) => {
    const certificates = await (await adviceOf(tx, selection)).advise(selection, { window, explanationUrl })
    const { start, end } = window
    if (certificates > 0)
      note('renewal.advise', { ...told(selection), certificates, start, end, explanation_url: explanationUrl })
    return { certificates, window }
  })
}

/** @returns how many had some */
function clear(audit: AuditLog, actor: Actor, selection: AdviceSelection): Promise<number> {
  return audit.transaction(actor, async (tx, note) => {
    const certificates = await (await adviceOf(tx, selection)).clear(selection)
    if (certificates > 0) note('renewal.clear', { ...told(selection), certificates })
    return certificates
  })
}

/** @throws AdminError for an issuer that has signed nothing here */
async function adviceOf(tx: Transaction, { issuerFingerprint }: AdviceSelection) {
  const advice = createRenewalAdvice(queriesOf(tx))
  const known = issuerFingerprint ? await advice.listIssuers() : []
  if (issuerFingerprint && !known.includes(issuerFingerprint.toString('hex')))
    throw new AdminError(
      'invalid_request',
      `no issuer certificate has this SHA-256 fingerprint; this database knows ${known.join(', ') || 'none'}`,
    )
  return advice
}

const MOST_TOLD = 100

/** For the audit log. */
function told({ serialNumbers, issuerFingerprint, issuedBefore }: AdviceSelection) {
  return {
    serial_numbers: serialNumbers?.slice(0, MOST_TOLD).map((serial) => serial.toString('hex')),
    issuer: issuerFingerprint?.toString('hex'),
    issued_before: issuedBefore,
  }
}

/** Advice to renew now (RFC 9773 §4.2) for sets of certificates. */

import { AdminError } from '../../domain/admin-error.ts'
import type { Actor } from '../../domain/administrator.ts'
import { advisedWindow, type RenewalWindow } from '../../domain/renewal-window.ts'
import { type AdviceSelection, createRenewalAdvice } from '../../store/renewal-store.ts'
import { queriesOf } from '../../store/slonik.ts'
import type { AuditLog, Transaction } from '../audit/audit-log.ts'

export interface WantedAdvice {
  /** Until when the renewals spread; at once when undefined. */
  windowEnd: Date | undefined
  /** Of a page that says why. */
  explanationUrl: string | undefined
}

export class Renewals {
  readonly #audit: AuditLog

  constructor(audit: AuditLog) {
    this.#audit = audit
  }

  advise(actor: Actor, selection: AdviceSelection, { windowEnd, explanationUrl }: WantedAdvice) {
    const now = new Date()
    if (windowEnd && windowEnd <= now) throw new AdminError('invalid_request', 'the end of the window is past')
    const window: RenewalWindow = advisedWindow(now, windowEnd)
    return this.#audit.transaction(actor, async (tx, note) => {
      const certificates = await (await adviceOf(tx, selection)).advise(selection, { window, explanationUrl })
      const { start, end } = window
      if (certificates > 0)
        note('renewal.advise', { ...told(selection), certificates, start, end, explanation_url: explanationUrl })
      return { certificates, window }
    })
  }

  /** @returns how many had some */
  clear(actor: Actor, selection: AdviceSelection): Promise<number> {
    return this.#audit.transaction(actor, async (tx, note) => {
      const certificates = await (await adviceOf(tx, selection)).clear(selection)
      if (certificates > 0) note('renewal.clear', { ...told(selection), certificates })
      return certificates
    })
  }
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

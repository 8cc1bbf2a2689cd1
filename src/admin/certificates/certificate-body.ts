/** Certificates as replies show them: with the name of the account and the renewal window. */

import type { CommonQueryMethods } from 'slonik'
import * as z from 'zod/v4'
import { renewalWindow, type WindowPolicy } from '../../domain/renewal-window.ts'
import { revocationReasonName } from '../../domain/revocation.ts'
import { windowsOf } from '../../store/renewal-window-store.ts'
import { accountNameMember, withAccountNames } from '../account-names.ts'
import { time, timeOrNull, timestamp } from '../schemas.ts'
import { type ListedCertificate, succeededAmong } from './certificate-list.ts'

export const Certificate = z
  .strictObject({
    id: z.uuid(),
    account_id: z.uuid().nullable(),
    account_name: accountNameMember(),
    order_id: z.uuid().nullable(),
    serial_number: z.string(),
    fingerprint: z.string().nullable().meta({ description: 'Null where only issuer and serial number are known.' }),
    issuer_fingerprint: z.string(),
    not_before: timestamp(),
    not_after: timestamp(),
    revoked_at: timestamp().nullable(),
    revocation_reason: z.string().nullable(),
    san_values: z.array(z.string()),
    created_at: timestamp(),
    renewal: z
      .strictObject({
        window_start: timestamp(),
        window_end: timestamp(),
        renewed: z
          .boolean()
          .nullable()
          .meta({ description: 'Whether it has a successor; null before the window opens, and without an account.' }),
      })
      .nullable()
      .meta({ description: 'When it should be renewed (RFC 9773); null once it is revoked or expired.' }),
  })
  .meta({ id: 'Certificate' })

interface Sources {
  db: CommonQueryMethods
  policy: { renewal: WindowPolicy }
}

/** @param rows of one page: three statements for all of them */
export async function certificateBodies(
  { db, policy }: Sources,
  rows: readonly ListedCertificate[],
): Promise<z.input<typeof Certificate>[]> {
  const now = new Date()
  const alive = rows.filter(({ revoked_at, not_after }) => revoked_at === null && not_after > now)
  const stored = await windowsOf(
    db,
    alive.map(({ id }) => id),
  )
  const windows = new Map(
    alive.map(({ id, not_before: notBefore, not_after: notAfter }) => {
      const facts = { notBefore, notAfter, revokedAt: undefined, advice: undefined, ...stored.get(id) }
      return [id, renewalWindow(facts, policy.renewal, now)]
    }),
  )
  const due = alive.filter(({ id, account_id }) => account_id !== null && (windows.get(id)?.start ?? now) < now)
  const dueIds = new Set(due.map(({ id }) => id))
  const succeeded = await succeededAmong(db, [...dueIds])
  return (await withAccountNames(db, rows)).map((row) => {
    const window = windows.get(row.id)
    return {
      ...bodyOf(row),
      renewal: window
        ? {
            window_start: time(window.start),
            window_end: time(window.end),
            renewed: dueIds.has(row.id) ? succeeded.has(row.id) : null,
          }
        : null,
    }
  })
}

export async function certificateBody(sources: Sources, row: ListedCertificate): Promise<z.input<typeof Certificate>> {
  const [body] = await certificateBodies(sources, [row])
  return body as z.input<typeof Certificate>
}

function bodyOf(row: ListedCertificate & { account_name: string | null }) {
  const { id, account_id, account_name, order_id, serial_number, fingerprint, issuer_fingerprint, revoked_at } = row
  return {
    id,
    account_id,
    account_name,
    order_id,
    serial_number,
    fingerprint,
    issuer_fingerprint,
    not_before: time(row.not_before),
    not_after: time(row.not_after),
    revoked_at: timeOrNull(revoked_at),
    revocation_reason: revoked_at && revocationReasonName(row.revocation_reason ?? 0),
    san_values: row.names,
    created_at: time(row.issued_at),
  }
}

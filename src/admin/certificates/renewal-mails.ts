/** Mails that ask owners to renew certificates at risk: one a contact, about all of the account. */

import type { CommonQueryMethods } from 'slonik'
import { RENEWAL_REQUESTS } from '../../domain/notification.ts'
import type { Scope } from '../../domain/permissions.ts'
import type { RenderedMail } from '../../events/notifications/templates.ts'
import { renderTimestamp } from '../../shared/protocol/timestamp.ts'
import { countToAccounts } from '../../store/notification-store.ts'
import type { OpenWindow } from '../../store/renewal-window-store.ts'
import type { AdminMail } from '../context.ts'
import { addressesOf, nameOf } from '../incidents/incident-hits.ts'
import { findOwners, type Owner } from '../incidents/incident-store.ts'
import { type DueCertificate, findDue } from './at-risk-store.ts'
import { succeededAmong } from './certificate-list.ts'

export interface RenewalMail {
  accountId: string
  accountName: string | null
  recipients: string[]
  /** Addresses of the account that had enough of these mails lately. */
  passedOver: string[]
  serialNumbers: string[]
  rendered: RenderedMail
}

/** Groups the chosen certificates that are at risk by account. */
export async function renewalMails(
  db: CommonQueryMethods,
  mail: AdminMail,
  serialNumbers: readonly string[],
  scope: Scope,
  window: OpenWindow,
): Promise<RenewalMail[]> {
  const due = await findDue(db, serialNumbers, scope, window)
  const succeeded = await succeededAmong(
    db,
    due.map(({ id }) => id),
  )
  const byAccount = new Map<string, DueCertificate[]>()
  for (const one of due) {
    if (succeeded.has(one.id)) continue
    const known = byAccount.get(one.account_id)
    if (known) known.push(one)
    else byAccount.set(one.account_id, [one])
  }
  const owners: ReadonlyMap<string, Owner> = await findOwners(db, [...byAccount.keys()])
  const isFull = await fullAddresses(db, [...owners.values()])
  const templates = mail.templates()
  return [...byAccount].map(([accountId, certificates]) => {
    const addresses = addressesOf(owners.get(accountId))
    return {
      accountId,
      accountName: nameOf(owners.get(accountId)),
      recipients: addresses.filter((address) => !isFull(accountId, address)),
      passedOver: addresses.filter((address) => isFull(accountId, address)),
      serialNumbers: certificates.map(({ serial_number }) => serial_number),
      rendered: templates.render('renewal_request', valuesOf(certificates, mail.serverUrl)),
    }
  })
}

/** @returns whether an address of an account has had enough of these mails */
async function fullAddresses(db: CommonQueryMethods, owners: readonly Owner[]) {
  const { most, withinMs } = RENEWAL_REQUESTS
  const since = new Date(Date.now() - withinMs)
  const counts = await countToAccounts(db, { type: 'renewal_request', recipients: owners.flatMap(addressesOf), since })
  const full = new Set(
    counts.filter(({ mails }) => mails >= most).map(({ account_id, recipient }) => `${account_id} ${recipient}`),
  )
  return (accountId: string, address: string): boolean => full.has(`${accountId} ${address.toLowerCase()}`)
}

const LINES = 50
const NAMES_OF_THE_SUBJECT = 3

function valuesOf(certificates: readonly DueCertificate[], serverUrl: string) {
  const shown = certificates.slice(0, LINES)
  const domains = shown.map(nameOfCertificate)
  return {
    certificates: certificates.length,
    more: certificates.length - shown.length,
    domains,
    lines: shown.map((one) => `${nameOfCertificate(one)}, valid until ${readable(one.not_after)}`),
    summary: domains.slice(0, NAMES_OF_THE_SUBJECT).join(', '),
    server_url: serverUrl,
    timestamp: renderTimestamp(new Date()),
  }
}

const nameOfCertificate = ({ serial_number, names: [first, ...others] }: DueCertificate): string => {
  if (first === undefined) return serial_number
  return others.length === 0 ? first : `${first} and ${others.length} more`
}

const readable = (at: Date): string => `${at.toISOString().slice(0, 16).replace('T', ' ')} UTC`

/** Mails to the owners of accounts, about an incident or certificates at risk, are recorded as notifications. */

import type { CommonQueryMethods } from 'slonik'
import { AdminError } from '../domain/admin-error.ts'
import { type NotificationType, RENEWAL_REQUESTS, type TemplateValues } from '../domain/notification.ts'
import type { Scope } from '../domain/permissions.ts'
import { KEY_COMPROMISE, revocationReasonName } from '../domain/revocation.ts'
import type { MailTemplates, RenderedMail } from '../events/notifications/templates.ts'
import { uuidv7 } from '../shared/lib/uuid.ts'
import { renderTimestamp } from '../shared/protocol/timestamp.ts'
import { countToAccounts, insertNotifications, type NewNotification } from '../store/notification-store.ts'
import { succeededAmong } from './certificates/certificate-list.ts'
import { type DueCertificate, findDue, type OpenWindow } from './certificates/renewal-window-store.ts'
import type { AdminMail } from './context.ts'
import {
  type Actions,
  addressesOf,
  findOwners,
  type Hits,
  MOST_OWNERS,
  nameOf,
  type Owner,
  type OwnerHit,
} from './incidents/incident-store.ts'

interface OwnerMail {
  /** Undefined for certificates of no account. */
  accountId: string | undefined
  /** Each gets a mail of its own. */
  recipients: readonly string[]
  rendered: RenderedMail
}

const PAGE = 500

/** @returns the ids of what was recorded; @throws AdminError where no mail is sent */
export async function recordOwnerMails(
  tx: CommonQueryMethods,
  { isEnabled, serverUrl }: AdminMail,
  type: NotificationType,
  mails: readonly OwnerMail[],
): Promise<string[]> {
  if (!isEnabled)
    throw new AdminError('conflict', 'smtp.enabled or notifications.enabled is false: the owners cannot be told')
  const host = new URL(serverUrl).hostname.replaceAll(/[^\w.-]/g, '')
  const now = new Date()
  const added = mails.flatMap(({ accountId, recipients, rendered }) =>
    recipients.map((recipient): NewNotification => {
      const id = uuidv7(now.getTime())
      return { id, type, recipient, ...rendered, accountId, dueAt: now, error: undefined, messageId: `<${id}@${host}>` }
    }),
  )
  for (let at = 0; at < added.length; at += PAGE) await insertNotifications(tx, added.slice(at, at + PAGE))
  return added.map(({ id }) => id)
}

/** Owners that have certificates to lose; what is revoked already is no news. */
const concerned = ({ owners }: Hits) => owners.filter(({ unrevoked }) => unrevoked > 0)

interface Audience {
  /** Accounts with an address. */
  accounts: number
  mails: number
  withoutContact: number
}

export function audienceOf(hits: Hits): Audience {
  const addresses = concerned(hits).map(({ owner }) => addressesOf(owner).length)
  const mails = addresses.reduce((sum, count) => sum + count, 0)
  const accounts = addresses.filter((count) => count > 0).length
  return { accounts, mails, withoutContact: addresses.length - accounts }
}

/** Shows the mail as its first recipient would get it; undefined when nobody can be written to. */
export function previewMail(mail: AdminMail, hits: Hits, actions: Actions, remark: string): RenderedMail | undefined {
  const first = concerned(hits).find(({ owner }) => addressesOf(owner).length > 0)
  return first && render(mail, mail.templates(), first, actions, remark)
}

/** @returns the ids of what was recorded; @throws AdminError where no mail is sent, or there are too many owners */
export async function recordMails(
  tx: CommonQueryMethods,
  mail: AdminMail,
  { hits, actions, remark }: { hits: Hits; actions: Actions; remark: string },
): Promise<string[]> {
  if (hits.isCut)
    throw new AdminError('conflict', `more than ${MOST_OWNERS} accounts are concerned; tell their owners in parts`)
  const templates = mail.templates()
  const mails = concerned(hits).map((hit) => ({
    accountId: hit.account_id ?? undefined,
    recipients: addressesOf(hit.owner),
    rendered: render(mail, templates, hit, actions, remark),
  }))
  return recordOwnerMails(tx, mail, 'incident', mails)
}

function render(
  mail: AdminMail,
  templates: MailTemplates,
  { unrevoked, names }: OwnerHit,
  { revoke, reason }: Actions,
  remark: string,
): RenderedMail {
  const values: TemplateValues = {
    revoked: Number(revoke),
    leaked: Number(reason === KEY_COMPROMISE),
    cause: revocationReasonName(reason),
    certificates: unrevoked,
    domains: names,
    more: Math.max(0, unrevoked - names.length),
    summary: names.join(', '),
    remark,
    server_url: mail.serverUrl,
    timestamp: renderTimestamp(new Date()),
  }
  return templates.render('incident', values)
}

export interface RenewalMail {
  accountId: string
  accountName: string | null
  recipients: string[]
  /** Addresses of the account that had enough of these mails lately. */
  passedOver: string[]
  serialNumbers: string[]
  rendered: RenderedMail
}

/** The mails ask owners to renew certificates at risk. Each contact gets one, about all that were chosen of the account. */
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

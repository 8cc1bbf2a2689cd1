/** Mails to the owners of an incident's certificates, recorded as notifications. */

import type { CommonQueryMethods } from 'slonik'
import { AdminError } from '../../domain/admin-error.ts'
import type { TemplateValues } from '../../domain/notification.ts'
import { KEY_COMPROMISE, revocationReasonName } from '../../domain/revocation.ts'
import type { MailTemplates, RenderedMail } from '../../events/notifications/templates.ts'
import { renderTimestamp } from '../../shared/protocol/timestamp.ts'
import type { AdminMail } from '../context.ts'
import { recordOwnerMails } from '../owner-mails.ts'
import { addressesOf, type Hits, MOST_OWNERS, type OwnerHit } from './incident-hits.ts'
import type { Actions } from './incident-store.ts'

/** Owners that have certificates to lose; what is revoked already is no news. */
const concerned = ({ owners }: Hits) => owners.filter(({ unrevoked }) => unrevoked > 0)

export interface Audience {
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

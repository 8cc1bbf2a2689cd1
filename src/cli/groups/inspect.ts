/** `chancery inspect …`, the former way to look at orders, certificates and accounts; it goes on. */

import { ACCOUNT_STATUSES, ORDER_STATUSES } from '../../domain/states.ts'
import { isGiven, option, optional, type Values } from '../../shared/command-line.ts'
import { onHost } from '../on-host.ts'
import { hex, instant, oneOf, PRINTING, text, uuid, whole } from '../values.ts'

const WHY = 'it is a former name; from elsewhere use orders, certificates or accounts with list or show'
const MAX_ROWS = 1000
const A_TIME = 'Date or RFC 3339 time'

/** Of a list that is shown a page at a time. */
export const PAGE = {
  after: optional('Where the page before ended', uuid),
  limit: option(`Rows of a page, at most ${MAX_ROWS}`, whole(1, MAX_ROWS), 50),
  ...PRINTING,
}

/** Of a list whose filters may leave few rows. */
const SEARCH = {
  ...PAGE,
  'to-end': isGiven(
    'Where filters leave few rows: search until the page is full or the list ends, however long it takes',
  ),
}

const CERTIFICATES = {
  account: optional('Account id', uuid),
  name: optional('One of its names', text),
  serial: optional('Serial number in hexadecimal', hex),
  status: optional('active, revoked or expired', oneOf(['active', 'revoked', 'expired'])),
  issuer: optional('SHA-256 fingerprint of the issuer certificate', hex),
  'expires-after': optional(`${A_TIME}; soonest first`, instant),
  'expires-before': optional(`${A_TIME}; soonest first`, instant),
  'issued-after': optional(A_TIME, instant),
  'issued-before': optional(A_TIME, instant),
  ...SEARCH,
}

const ORDERS = {
  account: optional('Account id', uuid),
  name: optional('One of its identifiers', text),
  status: optional('pending, ready, processing, valid or invalid', oneOf(ORDER_STATUSES)),
  'created-after': optional(A_TIME, instant),
  'created-before': optional(A_TIME, instant),
  ...SEARCH,
}

const ACCOUNTS = {
  status: optional('valid, deactivated or revoked', oneOf(ACCOUNT_STATUSES)),
  contact: optional('One of its contacts, or a mail address', text),
  eab: optional('Key id of the credential it was registered with', text),
  ...SEARCH,
}

export type PageOptions = Values<typeof PAGE> & { 'to-end'?: boolean }
export type CertificateOptions = Values<typeof CERTIFICATES>
export type OrderOptions = Values<typeof ORDERS>
export type AccountOptions = Values<typeof ACCOUNTS>

const one = (usage: string, about: string, inspect: 'inspectOrder' | 'inspectCertificate' | 'inspectAccount') =>
  onHost(WHY, {
    usage: `inspect ${usage}`,
    about: `Show ${about}`,
    options: PRINTING,
    examples: [`-c config.yaml inspect ${usage}`],
    run: async (options, [key = '']) => (await import('../commands/inspect.ts'))[inspect](options, key),
  })

const list = (name: string, example: string) => ({
  usage: `inspect ${name}`,
  about: `List ${name} by filters, newest first, a page at a time`,
  examples: [`-c config.yaml inspect ${name} ${example}`],
})

export const INSPECT = [
  one('order <uuid>', 'an order with its authorizations and challenges', 'inspectOrder'),
  one('certificate <uuid-or-serial>', 'a certificate', 'inspectCertificate'),
  one('account <uuid>', 'an account with its contacts and order counts', 'inspectAccount'),
  onHost(WHY, {
    ...list('certificates', '--status active --expires-before 2026-02-01'),
    options: CERTIFICATES,
    run: async (options) => (await import('../commands/inspect-lists.ts')).inspectCertificates(options),
  }),
  onHost(WHY, {
    ...list('orders', '--account 01938c4e-… --status invalid'),
    options: ORDERS,
    run: async (options) => (await import('../commands/inspect-lists.ts')).inspectOrders(options),
  }),
  onHost(WHY, {
    ...list('accounts', '--contact ops@example.com'),
    options: ACCOUNTS,
    run: async (options) => (await import('../commands/inspect-lists.ts')).inspectAccounts(options),
  }),
]

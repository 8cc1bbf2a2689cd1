/** Accounts, their orders, failures and binding credentials: by what they are listed. */

import { titleOfFailure } from '../../domain/failure-advice.ts'
import type { AccountStatus, OrderStatus } from '../../domain/states.ts'
import type { Filters, FilterValues } from './filter.ts'

const ACCOUNT_STATUSES = {
  valid: 'valid',
  deactivated: 'deactivated',
  revoked: 'revoked',
} as const satisfies Record<AccountStatus, string>

export const ACCOUNT_FILTERS = {
  status: { kind: ACCOUNT_STATUSES, label: 'Status', says: 'The status of the account.', field: true },
  name: {
    kind: 'line',
    label: 'Name or contact',
    says: 'Part of its label, a contact or its kid, in any case.',
    field: true,
  },
  tag: { kind: 'tag', label: 'Tag', says: 'Only those with this tag.', field: true },
  eab_only: { kind: 'flag', label: 'With a credential', says: 'True: only those that registered with a credential.' },
  eab_kid: {
    kind: 'word',
    label: 'Key identifier',
    says: 'Only those that registered with the credential of this key identifier.',
    field: true,
  },
  contact: { kind: 'line', most: 512, label: 'Contact', says: 'Part of one of its contacts, in any case.' },
  created_before: { kind: 'time', label: 'Created until', says: 'Only those created before this date or time.' },
  created_after: {
    kind: 'time',
    label: 'Created from',
    says: 'Only those created after this date or time.',
    field: true,
  },
} as const satisfies Filters
export type AccountQuery = FilterValues<typeof ACCOUNT_FILTERS>

export const ACCOUNT_MEMBERS = {
  table: ['id', 'name', 'status', 'tags', 'eab_kid', 'created_at'],
  file: [
    'id',
    'name',
    'label',
    'tags',
    'contacts',
    'status',
    'eab_kid',
    'jwk_thumbprint',
    'tos_agreed',
    'client',
    'last_seen_at',
    'created_at',
    'updated_at',
  ],
} as const

/** The client sees this status. */
const ORDER_STATUSES = {
  pending: 'pending',
  ready: 'ready',
  processing: 'processing',
  valid: 'valid',
  invalid: 'invalid',
} as const satisfies Record<OrderStatus, string>

export const ORDER_FILTERS = {
  account_id: { kind: 'uuid', label: 'Account id', says: 'Only those of the account with this id.' },
  domain: {
    kind: 'name',
    label: 'Exact name',
    says: 'One of its identifiers, in any spelling.',
    example: 'www.example.com',
    field: true,
  },
  status: { kind: ORDER_STATUSES, label: 'Status', says: 'The status that the client sees.', field: true },
  created_after: {
    kind: 'time',
    label: 'Created from',
    says: 'Only those created at this date or time, or later.',
    field: true,
  },
  created_before: {
    kind: 'time',
    label: 'Created until',
    says: 'Only those created before this date or time.',
    field: true,
  },
} as const satisfies Filters
export type OrderQuery = FilterValues<typeof ORDER_FILTERS>

export const ORDER_MEMBERS = {
  table: ['id', 'status', 'created_at', 'identifiers', 'account_name', 'certificate_id'],
  file: [
    'id',
    'account_id',
    'account_name',
    'status',
    'identifiers',
    'created_at',
    'expires_at',
    'certificate_id',
    'error',
  ],
} as const

const FAILURE_KINDS = {
  'order.rejected': titleOfFailure('order.rejected'),
  'order.csr_refused': titleOfFailure('order.csr_refused'),
  'order.quota_exceeded': titleOfFailure('order.quota_exceeded'),
  'certificate.issuance_failed': titleOfFailure('certificate.issuance_failed'),
  'challenge.on_failure': titleOfFailure('challenge.on_failure'),
}

export const FAILURE_FILTERS = {
  since: { kind: 'time', label: 'Since', says: 'Failures of this date or time, and later.', field: true },
  kind: { kind: FAILURE_KINDS, label: 'Kind', says: 'The event that tells of it.', field: true },
  problem: {
    kind: 'text',
    most: 64,
    label: 'Problem',
    says: 'As /failures/causes has it; empty for failures without one.',
  },
  name: {
    kind: 'name',
    label: 'Name',
    says: 'A name that it is about, in any spelling.',
    example: 'host.example.com',
    field: true,
  },
  account_id: { kind: 'uuid', label: 'Account id', says: 'Only those of the account with this id.', field: true },
} as const satisfies Filters

export const CREDENTIAL_FILTERS = {
  kid: { kind: 'line', label: 'Key identifier', says: 'Only the one with this key identifier.' },
  name: {
    kind: 'line',
    label: 'Key identifier or label',
    says: 'Part of its kid or its label, in any case.',
    field: true,
  },
  tag: { kind: 'tag', label: 'Tag', says: 'Only those with this tag.', field: true },
  status: {
    kind: { open: 'Active', expired: 'Expired', revoked: 'Revoked' },
    label: 'Status',
    says: 'Open ones are neither revoked nor expired; they may be used up.',
    field: true,
  },
} as const satisfies Filters
export type CredentialQuery = FilterValues<typeof CREDENTIAL_FILTERS>

export const CREDENTIAL_MEMBERS = {
  table: ['id', 'kid', 'label', 'tags', 'revoked', 'used', 'created_at'],
  file: [
    'id',
    'kid',
    'label',
    'tags',
    'used',
    'used_at',
    'revoked',
    'expires_at',
    'uses',
    'max_uses',
    'account_id',
    'account_name',
    'allowed_networks',
    'profiles',
    'created_at',
  ],
} as const

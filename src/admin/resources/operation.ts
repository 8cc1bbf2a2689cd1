/** The audit log, requests for approval and notifications: by what they are listed. */

import type { NotificationStatus } from '../../domain/notification.ts'
import type { Filters, FilterValues } from './filter.ts'

export const AUDIT_FILTERS = {
  action: {
    kind: 'word',
    most: 64,
    label: 'Action',
    says: 'Only this action, such as certificate.revoke.',
    field: true,
  },
  user_id: { kind: 'uuid', label: 'User', says: 'Only those of the user with this id.', field: true },
  object: {
    kind: 'line',
    label: 'Object',
    says: 'An id, name, key identifier or serial number, as the entry has it; up to 50,000 entries are searched at once.',
    example: 'an id, name, serial number',
    field: true,
  },
  ip_address: { kind: 'line', most: 64, label: 'Address', says: 'Only those from this address.', field: true },
  since: { kind: 'time', label: 'Since', says: 'Entries of this time and later.', field: true },
  until: { kind: 'time', label: 'Until', says: 'Entries of this time and earlier.', field: true },
} as const satisfies Filters
export type AuditQuery = FilterValues<typeof AUDIT_FILTERS>

export const APPROVAL_FILTERS = {
  waiting: {
    kind: 'flag',
    label: 'Status',
    says: 'True: without a decision and in time.',
    words: { true: 'Waiting', false: 'Decided or expired' },
    field: true,
  },
} as const satisfies Filters

const NOTIFICATION_STATUSES = {
  pending: 'pending',
  sent: 'sent',
  failed: 'failed',
} as const satisfies Record<NotificationStatus, string>

export const NOTIFICATION_FILTERS = {
  status: { kind: NOTIFICATION_STATUSES, label: 'Status', says: 'The status of the notification.', field: true },
  notification_type: { kind: 'line', most: 64, label: 'Type', says: 'Only failed ones of this type and one cause.' },
  cause: { kind: 'text', most: 200, label: 'Cause', says: 'The cause, as /notifications/causes has it.' },
} as const satisfies Filters

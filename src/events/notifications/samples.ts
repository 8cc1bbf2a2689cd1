/** Values for a look at a template: at the start, in `chancery mail preview`, and in tests. */

import type { NotificationType, TemplateValues } from '../../domain/notification.ts'

const domains = ['www.example.com', 'example.com']
const order_id = '0199a4f1-6c3d-7a52-9b1e-5d8f0c2a7e40'
const certificate_id = '0199a4f1-7f80-7d11-8a3c-2b6e4f9d1c55'
const account_id = '01980b7e-1d24-7c6f-b0a9-3e5d7f1c8a20'
const serial_number = '4f9c2d7e8b1a6053f4c81e29d7b35a60'
const not_after = '2027-02-21T12:00:00Z'
const deactivated_authorizations = 2
const cause = 'the credential team-a that it was registered with was revoked'

const COMMON = { server_url: 'https://acme.example.com', timestamp: '2026-11-23T12:00:00Z' }
const OF_NAMES = { domains, summary: domains.join(', ') }
const USER = { username: 'alice', email: 'alice@example.com', role: 'auditor', created_by: 'admin' }

const SAMPLES: Record<NotificationType, TemplateValues> = {
  delivery_succeeded: { ...OF_NAMES, serial_number, not_after, order_id, certificate_id },
  delivery_failed: { ...OF_NAMES, order_id, error_detail: 'the order expired before its certificate could be issued' },
  csr_validation_failed: { ...OF_NAMES, order_id, error_detail: 'CSR lists <shop.example.com>, the order does not' },
  revocation_succeeded: { ...OF_NAMES, serial_number, reason: 'keyCompromise' },
  revocation_failed: { ...OF_NAMES, serial_number, reason: 'superseded', error_detail: 'the backend answered 503' },
  registration_succeeded: { account_id, contacts: ['mailto:ops@example.com'] },
  registration_failed: { contacts: ['mailto:ops@example'], error_detail: 'contacts at example are not accepted' },
  admin_user_created: USER,
  admin_password_reset: USER,
  expiration_warning: {
    ...OF_NAMES,
    certificate_id,
    serial_number,
    not_after: '2026-11-30T12:00:00Z',
    warning_days: 7,
    days_left: '7 days',
  },
  order_rejected: {
    rejected_identifiers: ['shop.example.net'],
    summary: 'shop.example.net',
    error_detail: 'the account may not ask for shop.example.net',
  },
  order_quota_exceeded: { quota_limit: 50, quota: 'orders', attempted_identifiers: domains },
  order_stale_recovered: { ...OF_NAMES, order_id },
  challenge_failed: {
    identifier: 'www.example.com',
    challenge_type: 'http-01',
    error_detail: 'www.example.com (192.0.2.7) port 80: connection refused',
  },
  account_deactivated: { account_id, deactivated_authorizations },
  account_revoked: { account_id, reason: 'eab_revoked:team-a', cause, deactivated_authorizations },
  key_rollover_succeeded: {
    account_id,
    old_thumbprint: 'NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs',
    new_thumbprint: 'kMkyPJLwTRSJsuQwPWbJnLMVnXq6vKXmqI8eOyWWv8Y',
  },
  authorization_deactivated: {
    authorization_id: '0199a4f1-6d02-7b33-a4c7-1f2e3d4c5b60',
    identifier: 'www.example.com',
    identifier_type: 'dns',
    invalidated_orders: 1,
  },
}

export const sampleOf = (type: NotificationType): TemplateValues => ({ ...COMMON, ...SAMPLES[type] })

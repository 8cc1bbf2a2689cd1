/** One event of each kind: for previews of mails, docs/hooks.md, and tests. */

import type { EventData, EventKind, OccurredEvent } from './event.ts'

const domains = ['www.example.com', 'example.com']
const identifiers = domains.map((value) => ({ type: 'dns', value }))
const account_id = '01980b7e-1d24-7c6f-b0a9-3e5d7f1c8a20'
const order_id = '0199a4f1-6c3d-7a52-9b1e-5d8f0c2a7e40'
const authorization_id = '0199a4f1-6d02-7b33-a4c7-1f2e3d4c5b60'
const certificate_id = '0199a4f1-7f80-7d11-8a3c-2b6e4f9d1c55'
const serial_number = '4f9c2d7e8b1a6053f4c81e29d7b35a60'
const not_after = '2027-02-21T12:00:00Z'
const old_thumbprint = 'NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs'
const new_thumbprint = 'kMkyPJLwTRSJsuQwPWbJnLMVnXq6vKXmqI8eOyWWv8Y'
const certificate = { certificate_id, account_id, serial_number, domains }
const attempt = {
  challenge_type: 'http-01',
  token: 'LoqXcYV8q5ONbJQxbmR7SCTNo3tiAXDfowyjxAjEuX0',
  identifier_type: 'dns',
  identifier_value: 'www.example.com',
  authorization_id,
  account_id,
}
const error = 'www.example.com (192.0.2.7) port 80: connection refused'
const ERROR = 'urn:ietf:params:acme:error:'

export const EVENT_SAMPLES: { readonly [K in EventKind]: EventData<K> } = {
  'account.registration': {
    account_id,
    contacts: ['mailto:ops@example.com'],
    jwk_thumbprint: old_thumbprint,
    tos_agreed: true,
  },
  'account.registration_failed': {
    contacts: ['mailto:ops@example'],
    error: { type: `${ERROR}invalidContact`, detail: 'contacts at example are not accepted' },
    refused: 1,
  },
  'account.deactivation': { account_id, deactivated_authorizations: 2 },
  'account.revocation': { account_id, deactivated_authorizations: 2 },
  'account.key_change': { account_id, old_thumbprint, new_thumbprint },
  'order.creation': { order_id, account_id, identifiers, authz_ids: [authorization_id] },
  'order.rejected': {
    account_id,
    error: { type: `${ERROR}rejectedIdentifier`, detail: 'the account may not ask for shop.example.net', status: 403 },
    rejected_identifiers: [{ type: 'dns', value: 'shop.example.net' }],
    attempted_identifiers: [...identifiers, { type: 'dns', value: 'shop.example.net' }],
  },
  'order.csr_refused': {
    account_id,
    order_id,
    identifiers,
    error: { type: `${ERROR}badCSR`, detail: 'CSR lists <shop.example.com>, the order does not', status: 400 },
  },
  'order.quota_exceeded': { account_id, quota: 'orders', limit: 50, attempted_identifiers: identifiers },
  'order.recovered': { order_id, account_id, certificate_id, identifiers },
  'challenge.before_validate': attempt,
  'challenge.after_validate': { ...attempt, result: 'success' },
  'challenge.on_failure': { ...attempt, error, problem: 'connection' },
  'challenge.on_retry': { ...attempt, error, problem: 'connection', retry_count: 1, backoff_seconds: 5 },
  'authorization.deactivation': {
    authorization_id,
    account_id,
    identifier_type: 'dns',
    identifier_value: 'www.example.com',
    invalidated_orders: [order_id],
  },
  'certificate.issuance': { ...certificate, order_id, not_after },
  'certificate.issuance_failed': {
    order_id,
    account_id,
    identifiers,
    error: {
      type: `${ERROR}serverInternal`,
      detail: 'the order expired before its certificate could be issued',
      status: 500,
    },
  },
  'certificate.revocation': { ...certificate, reason: 'keyCompromise' },
  'certificate.revocation_failed': {
    ...certificate,
    backend: 'external',
    reason: 'superseded',
    error: { detail: 'the backend answered 503' },
  },
  'certificate.delivery': certificate,
  'certificate.expiration': { ...certificate, not_after: '2026-11-30T12:00:00Z', warning_days: 7 },
  'ct.submission': {
    certificate_id,
    serial_number,
    ct_log_url: 'https://ct.example.com/2026',
    sct: { id: 'aHR0cA==', timestamp: 1_795_435_200_000, extensions: '', signature: 'BAMASA==', verified: true },
  },
  'crl.publication': {
    issuer: 'default',
    shard: 0,
    number: 42,
    entries: 7,
    this_update: '2026-11-23T12:00:00Z',
    next_update: '2026-11-30T12:00:00Z',
  },
  'admin.action': {
    id: '0199a4f2-0b11-7c44-8d5e-6f7a8b9c0d1e',
    user_id: null,
    action: 'user.create',
    target_user_id: '0199a4f2-0c22-7d55-9e6f-7a8b9c0d1e2f',
    details: { username: 'alice', role: 'auditor', operator: 'admin' },
    ip_address: null,
    created_at: '2026-11-23T12:00:00Z',
  },
  'abuse.summary': {
    refusal: 'notFound',
    count: 120,
    from: '2026-11-23T11:59:00.000Z',
    until: '2026-11-23T12:00:00.000Z',
    instance: 1,
  },
  alarm: {
    message: 'the database was behind its signer, and 1 act is lost',
    reason:
      '1 act since 2026-11-23 11:58:40 UTC was missing: 1 is lost, wholly or in part; repeat what you still want (chancery reconcile --lost)',
    lines: [
      'From 2026-11-23 11:58:40 UTC to 2026-11-23 12:00:00 UTC the database lost 1 act.',
      '',
      'These acts are lost. Repeat what you still want.',
      '2026-11-23 11:59:12 UTC, EAB credential: create, web-1, by alice',
      '',
      'All of them: "Lost decisions" in the console, or chancery reconcile --lost',
    ],
  },
}

export function sampleEvent(kind: EventKind): OccurredEvent {
  const event = {
    id: '5f0c3c5e-8d8b-4d5b-9d0a-2f4f0f1f7f11',
    kind,
    subject: certificate_id,
    accountId: account_id,
    occurredAt: new Date('2026-11-23T12:00:00Z'),
    data: EVENT_SAMPLES[kind],
  }
  return event as OccurredEvent
}

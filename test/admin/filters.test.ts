/**
 * Each filter of each resource, by its row: a value that finds the object, and one that does not.
 *
 * A filter without a row does not compile, so a new one is tested by a row here.
 */

import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { before, describe, test } from 'node:test'
import { ACCOUNT_FILTERS, FAILURE_FILTERS, ORDER_FILTERS } from '../../src/admin/resources/accounts.ts'
import { CERTIFICATE_FILTERS } from '../../src/admin/resources/certificates.ts'
import { CREDENTIAL_FILTERS } from '../../src/admin/resources/credentials.ts'
import type { Filters } from '../../src/admin/resources/filter.ts'
import { APPROVAL_FILTERS, AUDIT_FILTERS, NOTIFICATION_FILTERS } from '../../src/admin/resources/operation.ts'
import type { AcmeClient } from '../support/acme-client.ts'
import { issuingOn } from '../support/administered.ts'
import { accountIdOf, boundClient, type MadeCredential, made, NOBODY } from '../support/bound.ts'
import { sharedService } from '../support/shared-service.ts'
import { until } from '../support/until.ts'

/** `eab_only=false` leaves nothing out, so a value that finds nothing may be missing. */
type Cases<F extends Filters> = Record<keyof F, readonly [finds: string, misses?: string]>

const EARLIER = new Date(Date.now() - 86_400_000).toISOString()
const LATER = new Date(Date.now() + 86_400_000).toISOString()
const IN_A_YEAR = new Date(Date.now() + 366 * 86_400_000).toISOString()
const CAUSE = 'the mail server is away'

describe('the filters of a list', () => {
  const at = issuingOn(() => sharedService('admin'))
  let client: AcmeClient
  let credential: MadeCredential
  let account: string
  let leaf: X509Certificate
  let details: { issuer_fingerprint: string; public_key: { spki_sha256: string } }
  let admin: string
  before(async () => {
    credential = await made<MadeCredential>(at.admin, '/eab', { kid: 'filters', label: 'Payments', tags: ['pay'] })
    client = await boundClient(at.service, credential)
    account = accountIdOf(client)
    await client.post(client.kid, { contact: ['mailto:ops@filters.test'] })
    await at.admin.send('PATCH', `/accounts/${account}`, { label: 'Billing', tags: ['pay'] })
    leaf = new X509Certificate((await client.obtain(['www.filters.test'], at.responder)).der)
    const revoked = await at.admin.send('POST', `/certificates/${leaf.serialNumber}/revoke`, { reason: 4 })
    assert.equal(revoked.status, 200, revoked.text)
    const { issuer_fingerprint } = (await at.admin.get(`/certificates/${leaf.serialNumber}`)).json
    details = { ...(await at.admin.get(`/certificates/${leaf.serialNumber}/details`)).json, issuer_fingerprint }
    admin = (await at.admin.get('/audit-log?action=certificate.revoke')).json[0].user_id
    await client.newOrder(['forbidden.test'])
    await at.sql(
      `INSERT INTO notifications (id, notification_type, recipient, subject, body_text, body_html, status, error_detail, message_id)
       VALUES (gen_random_uuid(), 'order_rejected', 'ops@filters.test', '', '', '', 'failed', $1, 'filters')`,
      [CAUSE],
    )
    await at.sql(
      `INSERT INTO admin_approvals (id, act, operation, input, summary, facts, reason, maker_id, maker, expires_at)
       VALUES (gen_random_uuid(), 'user_changes', 'updateUser', '{}', 'filters', '[]', 'a test', $1, '{"username": "maker"}', $2)`,
      [NOBODY, LATER],
    )
    await until('the failure is kept', async () => (await at.admin.get('/failures')).json.length > 0)
  })

  /** @param cases values that find something in the list, and values that do not; "also" filters a value needs beside it */
  function each<F extends Filters>(
    list: string,
    filters: F,
    cases: () => Cases<F>,
    also: Record<string, string> = {},
  ): void {
    for (const name of Object.keys(filters))
      test(`of ${list}: ${name}`, async () => {
        const [finds, misses] = cases()[name] ?? assert.fail(name)
        const found = async (value: string) => {
          const query = new URLSearchParams(also)
          query.set(name, value)
          const { status, json, text } = await at.admin.get(`/${list}?${query}`)
          assert.equal(status, 200, text)
          return (json as unknown[]).length > 0
        }
        assert.ok(await found(finds), finds)
        if (misses !== undefined) assert.ok(!(await found(misses)), misses)
      })
  }

  each('certificates', CERTIFICATE_FILTERS, () => ({
    account_id: [account, NOBODY],
    serial: [leaf.serialNumber, 'beef'],
    fingerprint: [leaf.fingerprint256, '00'.repeat(32)],
    spki_sha256: [details.public_key.spki_sha256, '00'.repeat(32)],
    domain: ['WWW.filters.test', 'filters.test'],
    domain_suffix: ['filters.test', 'ilters.test'],
    status: ['revoked', 'active'],
    renewed: ['false', 'true'],
    expiring_after: [LATER, IN_A_YEAR],
    expiring_before: [IN_A_YEAR, LATER],
    issued_after: [EARLIER, LATER],
    issued_before: [LATER, EARLIER],
    revoked_after: [EARLIER, LATER],
    issuer: [details.issuer_fingerprint, '00'.repeat(32)],
    profile: ['default', 'other'],
  }))

  each('accounts', ACCOUNT_FILTERS, () => ({
    status: ['valid', 'deactivated'],
    name: ['illin', 'nobody'],
    tag: ['pay', 'emea'],
    eab_only: ['true'],
    eab_kid: [credential.kid, 'another'],
    contact: ['OPS@', 'nobody@'],
    created_before: [LATER, EARLIER],
    created_after: [EARLIER, LATER],
  }))

  each('orders', ORDER_FILTERS, () => ({
    account_id: [account, NOBODY],
    domain: ['WWW.filters.test', 'filters.test'],
    status: ['valid', 'processing'],
    created_after: [EARLIER, LATER],
    created_before: [LATER, EARLIER],
  }))

  each('failures', FAILURE_FILTERS, () => ({
    since: [EARLIER, LATER],
    kind: ['order.rejected', 'order.csr_refused'],
    problem: ['rejectedIdentifier', 'badCSR'],
    name: ['FORBIDDEN.test', 'other.test'],
    account_id: [account, NOBODY],
  }))

  each('eab', CREDENTIAL_FILTERS, () => ({
    kid: [credential.kid, 'another'],
    name: ['ayment', 'nobody'],
    tag: ['pay', 'emea'],
    status: ['open', 'revoked'],
  }))

  each('audit-log', AUDIT_FILTERS, () => ({
    action: ['certificate.revoke', 'user.delete'],
    user_id: [admin, NOBODY],
    object: [account, NOBODY],
    ip_address: ['127.0.0.1', '192.0.2.1'],
    since: [EARLIER, LATER],
    until: [LATER, EARLIER],
  }))

  each('approvals', APPROVAL_FILTERS, () => ({ waiting: ['true', 'false'] }))

  const ofCause = { status: 'failed', notification_type: 'order_rejected', cause: CAUSE }
  each(
    'notifications',
    NOTIFICATION_FILTERS,
    () => ({
      status: ['failed', 'sent'],
      notification_type: ['order_rejected', 'csr_validation_failed'],
      cause: [CAUSE, 'another'],
    }),
    ofCause,
  )
})

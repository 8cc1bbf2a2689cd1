/**
 * Each filter of each resource, by its row: a value that finds the object, and one that does not.
 *
 * A filter without a row does not compile, so a new one is tested by a row here.
 */

import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { before, describe, test } from 'node:test'
import {
  ACCOUNT_FILTERS,
  CREDENTIAL_FILTERS,
  FAILURE_FILTERS,
  ORDER_FILTERS,
} from '../../src/admin/resources/accounts.ts'
import { AT_RISK_FILTERS, CERTIFICATE_FILTERS, REVOCATION_FILTERS } from '../../src/admin/resources/certificates.ts'
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
    const old = new X509Certificate((await at.client.obtain(['old.test'], at.responder)).der)
    await at.sql(
      `UPDATE certificates SET not_before = now() - interval '80 days', not_after = now() + interval '10 days'
        WHERE names = ARRAY['old.test']`,
    )
    const serial_numbers = [old.serialNumber.toLowerCase()]
    await at.admin.send('POST', '/at-risk/mutes', { serial_numbers, reason: 'a test' })
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

  type Find = (name: string, value: string) => Promise<boolean>

  /** @param also filters that a value needs beside it */
  const inList =
    (list: string, also: Record<string, string> = {}): Find =>
    async (name, value) => {
      const { status, json, text } = await at.admin.get(`/${list}?${new URLSearchParams({ ...also, [name]: value })}`)
      assert.equal(status, 200, text)
      return (json as unknown[]).length > 0
    }

  const byDryRun: Find = async (name, value) => {
    const filter = { [name]: name === 'serial_numbers' ? [value] : value }
    const { status, json, text } = await at.admin.send('POST', '/certificates/bulk-revoke', { filter, dry_run: true })
    assert.equal(status, 200, text)
    return json.matching_certificates + json.already_revoked > 0
  }

  /** @param cases values that find something, and values that do not */
  function each<F extends Filters>(what: string, filters: F, cases: () => Cases<F>, find: Find = inList(what)): void {
    for (const name of Object.keys(filters))
      test(`of ${what}: ${name}`, async () => {
        const [finds, misses] = cases()[name] ?? assert.fail(name)
        assert.ok(await find(name, finds), finds)
        if (misses !== undefined) assert.ok(!(await find(name, misses)), misses)
      })
  }

  each('certificates', CERTIFICATE_FILTERS, () => ({
    account_id: [account, NOBODY],
    serial: [leaf.serialNumber, 'beef'],
    fingerprint: [leaf.fingerprint256, '00'.repeat(32)],
    spki_sha256: [details.public_key.spki_sha256, '00'.repeat(32)],
    key_type: ['P-256', 'RSA-below-3072'],
    domain: ['WWW.filters.test', 'filters.test'],
    domain_suffix: ['filters.test', 'ilters.test'],
    status: ['revoked', 'expired'],
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
    object: [account, 'nothing.filters.test'],
    ip_address: ['127.0.0.1', '192.0.2.1'],
    since: [EARLIER, LATER],
    until: [LATER, EARLIER],
  }))

  each('approvals', APPROVAL_FILTERS, () => ({ waiting: ['true', 'false'] }))

  each(
    'notifications',
    NOTIFICATION_FILTERS,
    () => ({
      status: ['failed', 'sent'],
      notification_type: ['order_rejected', 'csr_validation_failed'],
      cause: [CAUSE, 'another'],
    }),
    inList('notifications', { status: 'failed', notification_type: 'order_rejected', cause: CAUSE }),
  )

  each(
    'at-risk',
    AT_RISK_FILTERS,
    () => ({
      account_id: [accountIdOf(at.client), account],
      expiring_before: [IN_A_YEAR, LATER],
      muted: ['true', 'false'],
    }),
    inList('at-risk', { muted: 'true' }),
  )

  each(
    'bulk revocations',
    REVOCATION_FILTERS,
    () => ({
      account_id: [account, NOBODY],
      spki_sha256: [details.public_key.spki_sha256, '00'.repeat(32)],
      key_type: ['P-256', 'RSA-below-3072'],
      eab_kid: [credential.kid, 'another'],
      domain: ['WWW.filters.test', 'filters.test'],
      domain_suffix: ['filters.test', 'ilters.test'],
      issued_after: [EARLIER, LATER],
      issued_before: [LATER, EARLIER],
      serial_numbers: [leaf.serialNumber, 'beef'],
    }),
    byDryRun,
  )
})

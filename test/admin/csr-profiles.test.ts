/** CSR profiles over the Admin API, their dry runs, and what ACME clients get of them. */

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { type AcmeClient, base64url, type Responder, registeredClient, startResponder } from '../support/acme-client.ts'
import { fieldsOf } from '../support/admin.ts'
import { administered } from '../support/administered.ts'
import { accountIdOf, boundClient, change, type MadeCredential, made, NOBODY, newestEntries } from '../support/bound.ts'
import { plainCsr } from '../support/csr.ts'
import { P256_KEY } from '../support/keys.ts'
import { sharedService } from '../support/shared-service.ts'
import { words } from '../support/words.ts'

const csrOf = (...names: string[]) => plainCsr(P256_KEY, names)

describe('CSR profiles', () => {
  const { service, as } = administered(() => sharedService('admin'))
  const admin = as('alice')
  const auditor = as('audrey', 'auditor')
  let responder: Responder
  before(async () => {
    responder = await startResponder(service.http01Port)
  })
  after(async () => {
    await responder.close()
  })

  let count = 0
  const name = () => `profile-${++count}`
  const create = (profile_data: object = {}) => made(admin, '/csr-profiles', { name: name(), profile_data })
  /** What finalize answers to a request for one name: 200, or the violations. */
  async function finalize(client: AcmeClient): Promise<unknown> {
    const names = [`host-${++count}.test`]
    const order = await client.newOrder(names)
    await client.authorize(order, responder)
    const answer = await client.post(order.json.finalize, { csr: base64url(csrOf(...names)) })
    return answer.status === 200 ? 200 : answer.json.subproblems.map(({ detail }: { detail: string }) => detail)
  }
  const profileOf = async (path: string) => (await admin.get(`${path}/csr-profile`)).json?.id ?? null
  /** The credential through which the profile of an account counts, as an auditor reads it. */
  const wayOf = async (account: string) => (await auditor.get(`${account}/csr-profile`)).json.eab_credential_id

  test('are made, read, listed the newest first, and replaced as a whole', async () => {
    const wanted = { name: name(), description: 'of servers', profile_data: { san_maximum: 3, san_regex: '.*\\.test' } }
    const reply = await admin.send('POST', '/csr-profiles', wanted)
    assert.equal(reply.status, 201, reply.text)
    const { id, created_by, created_at, updated_at, ...facts } = reply.json
    assert.deepEqual(facts, wanted)
    assert.equal(created_by, (await admin.get('/me')).json.id)
    assert.equal(updated_at, created_at)
    assert.deepEqual((await auditor.get(`/csr-profiles/${id}`)).json, {
      ...reply.json,
      account_ids: [],
      more_accounts: false,
    })
    assert.deepEqual((await auditor.get('/csr-profiles')).json[0], reply.json)

    const replaced = await admin.send('PUT', `/csr-profiles/${id}`, {
      name: wanted.name,
      profile_data: { san_minimum: 1 },
    })
    assert.equal(replaced.status, 200)
    assert.deepEqual([replaced.json.description, replaced.json.profile_data], ['', { san_minimum: 1 }])
    assert.notEqual(replaced.json.updated_at, updated_at)
    const [entry] = await newestEntries(admin, 1)
    assert.equal(entry?.action, 'csr_profile.update')
    assert.deepEqual(entry?.details['changed'], {
      description: { before: 'of servers', after: null },
      san_maximum: { before: 3, after: null },
      san_minimum: { before: null, after: 1 },
      san_regex: { before: '.*\\.test', after: null },
    })
    await admin.send('PUT', `/csr-profiles/${id}`, { name: wanted.name, profile_data: { san_minimum: 1 } })
    assert.deepEqual(await newestEntries(admin, 1), [entry])
  })

  test('the singular paths of existing clients mean the same', async () => {
    const reply = await admin.send('POST', '/csr-profile', { name: name(), profile_data: {} })
    assert.equal(reply.status, 201)
    const { id } = reply.json
    assert.equal((await admin.send('PUT', `/csr-profile/${id}`, { name: name(), profile_data: {} })).json.id, id)
  })

  test('every wrong field is named', async () => {
    const reply = await admin.send('POST', '/csr-profiles', {
      name: name(),
      profile_data: {
        authorized_keys: { DSA: 1 },
        authorized_signature_algorithms: ['sha256withRSA'],
        common_name_regex: '(?=a)',
        san_maximum: 1.5,
        san_types: 'DNS_NAME',
        wildcard_in_san: 'no',
        max_subdomain_depth: -1,
        sann_regex: '',
      },
    })
    assert.equal(reply.status, 400)
    assert.deepEqual(
      fieldsOf(reply),
      words`
      profile_data.authorized_keys.DSA profile_data.authorized_signature_algorithms.0 profile_data.common_name_regex
      profile_data.max_subdomain_depth profile_data.san_maximum profile_data.san_types profile_data.sann_regex
      profile_data.wildcard_in_san
    `,
    )
    assert.match(reply.text, /did you mean 'san_regex'/)
    assert.match(reply.text, /RE2 syntax/)
    for (const body of [
      { name: name() },
      { profile_data: {} },
      { name: ' ', profile_data: {} },
      { name: 'x', profile_data: [] },
    ])
      assert.equal((await admin.send('POST', '/csr-profiles', body)).status, 400)
  })

  test('every documented field can be set and is shown again', async () => {
    const profile_data = {
      authorized_keys: {
        RSA: 3072,
        'EC.secp256r1': 256,
        'EC.secp384r1': 384,
        'EC.secp521r1': 521,
        Ed25519: 0,
        Ed448: 0,
      },
      authorized_signature_algorithms: ['SHA256withRSA', 'SHA256withECDSA', 'Ed25519'],
      authorized_key_usages: ['digital_signature', 'key_encipherment'],
      authorized_extended_key_usages: ['serverAuth', 'clientAuth'],
      common_name_minimum: 0,
      common_name_maximum: -1,
      common_name_regex: '.*',
      san_minimum: -1,
      san_maximum: -1,
      san_regex: '.*',
      san_types: ['DNS_NAME', 'IP_ADDRESS'],
      subject_regex: '.*',
      wildcard_in_common_name: false,
      wildcard_in_san: true,
      max_subdomain_depth: 2,
      depth_base_domains: ['test'],
      reuse_key: true,
      renewal_window_days: 0,
    }
    const { id } = await create(profile_data)
    assert.deepEqual((await admin.get(`/csr-profiles/${id}`)).json.profile_data, profile_data)
  })

  test('a taken name is a conflict, for a new one and a renamed one', async () => {
    const [taken, other] = [name(), name()]
    await made(admin, '/csr-profiles', { name: taken, profile_data: {} })
    assert.equal((await admin.send('POST', '/csr-profiles', { name: taken, profile_data: {} })).status, 409)
    const { id } = await made(admin, '/csr-profiles', { name: other, profile_data: {} })
    assert.equal((await admin.send('PUT', `/csr-profiles/${id}`, { name: taken, profile_data: {} })).status, 409)
  })

  test('a dry run names each violation, for a stored profile and for data that is not stored', async () => {
    const profile_data = {
      common_name_minimum: 1,
      san_maximum: 1,
      san_regex: '[a-z;]+\\.example',
      wildcard_in_san: false,
    }
    const { id } = await create(profile_data)
    const csr = csrOf('a.test', '*.b.test').toString('base64')
    const expected = [
      '0 common names of at most 64 characters; the minimum is 1',
      '2 subject alternative names; the maximum is 1',
      'subject alternative name a.test does not match [a-z;]+\\.example',
      'subject alternative name *.b.test does not match [a-z;]+\\.example',
      'subject alternative name *.b.test is a wildcard',
    ]
    const stored = await auditor.send('POST', `/csr-profiles/${id}/validate`, { csr })
    assert.deepEqual([stored.status, stored.json], [200, { valid: false, violations: expected }])
    const unsaved = await auditor.send('POST', '/csr-profiles/validate', { profile_data, csr })
    assert.deepEqual(unsaved.json, { valid: false, violations: expected })
    const right = csrOf('a.example').toString('base64url')
    const passed = await auditor.send('POST', '/csr-profiles/validate', {
      profile_data: { san_maximum: 1 },
      csr: right,
    })
    assert.deepEqual(passed.json, { valid: true, violations: [] })
  })

  test('the answer of a dry run is short, however much the request violates', async () => {
    const depth_base_domains = Array.from({ length: 1_000 }, (_, number) => `${number}${'x'.repeat(30)}.example`)
    const profile_data = { max_subdomain_depth: 1, depth_base_domains }
    const csr = csrOf(...Array.from({ length: 990 }, (_, number) => `${number}a`)).toString('base64')
    const { status, text, json } = await auditor.send('POST', '/csr-profiles/validate', { profile_data, csr })
    assert.deepEqual([status, json.violations.length, json.violations.at(-1)], [200, 51, 'and 940 more'])
    assert.ok(text.length < 64 * 1024, `${text.length} characters`)
  })

  test('a dry run says what it could not check', async () => {
    const csr = csrOf('a.test').toString('base64')
    const profile_data = { reuse_key: false, renewal_window_days: 10 }
    const reply = await admin.send('POST', '/csr-profiles/validate', { profile_data, csr })
    assert.deepEqual(reply.json, { valid: true, violations: [], unchecked: ['reuse_key', 'renewal_window_days'] })
    const { id } = await create(profile_data)
    assert.equal(await finalize(await registeredClient(service.directoryUrl)), 200)
    const stored = await admin.send('POST', `/csr-profiles/${id}/validate`, { csr })
    assert.deepEqual(stored.json, { valid: false, violations: ['the key has been certified before; make a new one'] })
  })

  test('what is no request is 400', async () => {
    const { id } = await create()
    for (const body of [{}, { csr: '***' }, { csr: '' }, { csr: 'AAAA' }, { csr: 7 }]) {
      const reply = await admin.send('POST', `/csr-profiles/${id}/validate`, body)
      assert.equal(reply.status, 400, JSON.stringify(body))
      assert.equal(reply.json.fields[0].field, 'csr')
    }
  })

  test('an assigned profile counts from the next finalize on, until it is taken back', async () => {
    const client = await registeredClient(service.directoryUrl)
    const account = `/accounts/${accountIdOf(client)}`
    const { id } = await create({ san_maximum: 0 })
    assert.equal((await auditor.get(`${account}/csr-profile`)).text, 'null')
    for (let time = 0; time < 2; time++) await change(admin, 'PUT', `/csr-profiles/${id}${account}`)
    assert.deepEqual(await finalize(client), ['1 subject alternative names; the maximum is 0'])
    assert.equal(await profileOf(account), id)
    assert.deepEqual((await admin.get(`/csr-profiles/${id}`)).json.account_ids, [accountIdOf(client)])
    for (let time = 0; time < 2; time++) await change(admin, 'DELETE', `/csr-profiles/${id}${account}`)
    assert.equal(await profileOf(account), null)
    assert.equal(await finalize(client), 200)
  })

  test('the profile of a credential counts for its accounts before and after', async () => {
    const credential = await made<MadeCredential>(admin, '/eab', { kid: name() })
    const eab = `/eab/${credential.id}`
    const before = await boundClient(service, credential)
    const { id } = await create({ san_maximum: 0 })
    assert.equal((await admin.get(`${eab}/csr-profile`)).text, 'null')
    await change(admin, 'PUT', `${eab}/csr-profile/${id}`)
    const later = await boundClient(service, credential)
    for (const client of [before, later]) {
      assert.equal(await profileOf(`/accounts/${accountIdOf(client)}`), id)
      assert.notEqual(await finalize(client), 200)
    }
    assert.equal(await profileOf(eab), id)
    const other = await create({ san_minimum: 1 })
    await change(admin, 'DELETE', `${eab}/csr-profile/${other.id}`)
    assert.equal(await profileOf(eab), id)
    await change(admin, 'DELETE', `${eab}/csr-profile/${id}`)
    for (const client of [before, later]) assert.equal(await finalize(client), 200)
  })

  test("an account's own profile wins, and its credential's comes back when it is taken away or deleted", async () => {
    const credential = await made<MadeCredential>(admin, '/eab', { kid: name() })
    const client = await boundClient(service, credential)
    const account = `/accounts/${accountIdOf(client)}`
    const [own, granted, further] = [
      await create({}),
      await create({ san_maximum: 0 }),
      await create({ san_minimum: 9 }),
    ]
    await change(admin, 'PUT', `/csr-profiles/${own.id}${account}`)
    await change(admin, 'PUT', `/eab/${credential.id}/csr-profile/${granted.id}`)
    assert.equal(await profileOf(account), own.id)
    assert.equal(await wayOf(account), null)
    await change(admin, 'DELETE', `/csr-profiles/${granted.id}${account}`)
    assert.equal(await profileOf(account), own.id)
    await change(admin, 'DELETE', `/csr-profiles/${own.id}${account}`)
    assert.equal(await profileOf(account), granted.id)
    assert.equal(await wayOf(account), credential.id)
    await change(admin, 'PUT', `/csr-profiles/${own.id}${account}`)
    await change(admin, 'DELETE', `/csr-profiles/${own.id}`)
    assert.equal(await profileOf(account), granted.id)
    await change(admin, 'PUT', `/csr-profiles/${further.id}${account}`)
    await change(admin, 'DELETE', `/eab/${credential.id}/csr-profile/${granted.id}`)
    assert.equal(await profileOf(account), further.id)
    await change(admin, 'DELETE', `/csr-profiles/${further.id}${account}`)
    assert.equal(await profileOf(account), null)
  })

  test('unknown ends are 404', async () => {
    const { id } = await create()
    const account = accountIdOf(await registeredClient(service.directoryUrl))
    const eab = await made<MadeCredential>(admin, '/eab', { kid: name() })
    const body = { name: name(), profile_data: {} }
    for (const [method, path] of [
      ['GET', `/csr-profiles/${NOBODY}`],
      ['GET', '/csr-profiles/x'],
      ['PUT', `/csr-profiles/${NOBODY}`],
      ['DELETE', `/csr-profiles/${NOBODY}`],
      ['PUT', `/csr-profiles/${NOBODY}/accounts/${account}`],
      ['PUT', `/csr-profiles/${id}/accounts/${NOBODY}`],
      ['DELETE', `/csr-profiles/${NOBODY}/accounts/${account}`],
      ['DELETE', `/csr-profiles/${id}/accounts/${NOBODY}`],
      ['GET', `/accounts/${NOBODY}/csr-profile`],
      ['PUT', `/eab/${NOBODY}/csr-profile/${id}`],
      ['PUT', `/eab/${eab.id}/csr-profile/${NOBODY}`],
      ['DELETE', `/eab/${NOBODY}/csr-profile/${id}`],
      ['DELETE', `/eab/${eab.id}/csr-profile/${NOBODY}`],
    ] as const) {
      const reply = await admin.send(
        method,
        path,
        path === `/csr-profiles/${NOBODY}` && method === 'PUT' ? body : undefined,
      )
      assert.deepEqual([reply.status, reply.json.error], [404, 'not_found'], `${method} ${path}`)
    }
    const csr = csrOf('a.test').toString('base64')
    assert.equal((await admin.send('POST', `/csr-profiles/${NOBODY}/validate`, { csr })).status, 404)
  })

  test('an expression has at most the characters that the engine takes', async () => {
    const profile_data = (length: number) => ({ san_regex: `[${'a'.repeat(length - 2)}]` })
    assert.equal(
      (await admin.send('POST', '/csr-profiles', { name: name(), profile_data: profile_data(2_048) })).status,
      201,
    )
    const wanted = { name: name(), profile_data: profile_data(2_049) }
    const { status, json } = await admin.send('POST', '/csr-profiles', wanted)
    assert.deepEqual(
      [status, json.fields],
      [400, [{ field: 'profile_data.san_regex', message: 'must be at most 2048 characters long' }]],
    )
  })

  test('a body that an auditor may send has at most 64 KB', async () => {
    const members = Array.from({ length: 10_000 }, (_, number) => [`unknown${number}`, 0])
    const reply = await auditor.send('POST', '/csr-profiles/validate', Object.fromEntries(members))
    assert.deepEqual([reply.status, reply.json.error], [413, 'too_large'])
  })

  test('others may send at most 1 MiB', async () => {
    const reply = await admin.send('POST', '/csr-profiles/validate', { name: 'x'.repeat(1024 * 1024) })
    assert.deepEqual([reply.status, reply.json.error], [413, 'too_large'])
  })

  test('the role is looked at before the body', async () => {
    const { id } = await create()
    for (const path of [`/csr-profiles/${id}`, '/csr-profiles/no-id'])
      assert.equal((await auditor.send('PUT', path)).status, 403, path)
    assert.equal((await admin.send('PUT', `/csr-profiles/${id}`)).status, 400)
  })

  test('auditors read and try, and change nothing', async () => {
    const { id } = await create()
    assert.equal((await auditor.send('PUT', `/csr-profiles/${id}`, { name: name(), profile_data: {} })).status, 403)
    assert.equal((await auditor.send('DELETE', `/csr-profiles/${id}`)).status, 403)
  })
})

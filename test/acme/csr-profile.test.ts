/** CSR profiles at finalize (`profile_data`). */

import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, test } from 'node:test'
import {
  type AcmeClient,
  type Answer,
  base64url,
  createAcmeClient,
  registeredClient,
  revoke,
} from '../support/acme-client.ts'
import { acmeScene } from '../support/acme-scene.ts'
import { bindingFor, chancery, createCredential, operate } from '../support/operator.ts'
import { aCsr, freshP256Key, P256_KEY, P384_KEY, type TestKey, x509 } from '../unit/shared/pki/support.ts'

const BAD_CSR = 'urn:ietf:params:acme:error:badCSR'
const idOf = (client: AcmeClient) => client.kid.split('/').at(-1) as string

describe('CSR profiles', () => {
  const { service, responder } = acmeScene('acme')

  let profiles = 0
  async function createProfile(data: object): Promise<string> {
    const name = `profile-${++profiles}`
    const file = path.join(service.folder, `${name}.json`)
    writeFileSync(file, JSON.stringify({ name, profile_data: data }))
    await operate(service, 'profiles', 'create', file)
    return name
  }

  async function profiledClient(data: object): Promise<AcmeClient> {
    const name = await createProfile(data)
    const client = await registeredClient(service.directoryUrl)
    await operate(service, 'profiles', 'assign', name, '--account', idOf(client))
    return client
  }

  interface Request {
    key?: TestKey
    subject?: string
    extensions?: x509.Extension[]
  }

  /** A ready order for the names, and a way to finalize it. */
  async function readyOrder(client: AcmeClient, names: readonly string[]) {
    const order = await client.newOrder(names)
    await client.authorize(order, responder)
    return {
      async finalize({ key = P256_KEY, subject = '', extensions = [] }: Request = {}): Promise<Answer> {
        const san = names.map((value) => ({ type: 'dns' as const, value }))
        const csr = await aCsr(key, { names: san, subject, extensions })
        return client.post(order.json.finalize, { csr: base64url(csr) })
      },
      status: async () => (await client.post(String(order.headers.location))).json.status,
    }
  }

  function assertViolations(answer: Answer, violations: readonly RegExp[]): void {
    assert.equal(answer.json.type, BAD_CSR, answer.text)
    assert.equal(answer.status, 400)
    assert.match(answer.json.detail, /^the CSR violates the CSR profile of this account: /)
    assert.equal(answer.json.subproblems.length, violations.length, answer.text)
    for (const [index, violation] of violations.entries()) {
      const { type, detail, ...rest } = answer.json.subproblems[index]
      assert.equal(type, BAD_CSR)
      assert.match(detail, violation)
      assert.deepEqual(rest, {})
      assert.ok(answer.json.detail.includes(detail))
    }
  }

  test('every violation is named at once, the order stays ready, and a right CSR then succeeds', async () => {
    const client = await profiledClient({
      authorized_keys: { 'EC.secp384r1': 384 },
      authorized_signature_algorithms: ['SHA384withECDSA'],
      authorized_extended_key_usages: ['serverAuth'],
      common_name_maximum: 0,
      san_regex: '.*\\.test',
    })
    const order = await readyOrder(client, ['several.test'])
    const wrong = {
      subject: 'CN=several.test',
      extensions: [new x509.ExtendedKeyUsageExtension(['1.3.6.1.5.5.7.3.2'])],
    }
    assertViolations(await order.finalize(wrong), [
      /^keys of type EC\.secp256r1 are not authorized; use EC\.secp384r1$/,
      /^signature algorithm SHA256withECDSA is not authorized/,
      /^extended key usage clientAuth is not authorized$/,
      /^1 common names; the maximum is 0$/,
    ])
    assert.equal(await order.status(), 'ready')
    assert.equal((await order.finalize({ key: P384_KEY })).status, 200)
  })

  test('an account without a profile is not concerned', async () => {
    const client = await registeredClient(service.directoryUrl)
    const order = await readyOrder(client, ['free.test'])
    assert.equal((await order.finalize()).status, 200)
  })

  test('a profile that is changed in the database holds from the next finalize on', async () => {
    const client = await profiledClient({ san_regex: 'no.*' })
    const order = await readyOrder(client, ['changed.test'])
    assertViolations(await order.finalize(), [/does not match no\.\*$/])
    await operate(service, 'profiles', 'assign', await createProfile({}), '--account', idOf(client))
    assert.equal((await order.finalize()).status, 200)
  })

  test('reuse_key false refuses a key that was certified for anybody', async () => {
    const other = await registeredClient(service.directoryUrl)
    await (await readyOrder(other, ['first-use.test'])).finalize({ key: P384_KEY })
    const client = await profiledClient({ reuse_key: false })
    const order = await readyOrder(client, ['second-use.test'])
    assertViolations(await order.finalize({ key: P384_KEY }), [/^the key has been certified before/])
    assert.equal(await order.status(), 'ready')
  })

  test('reuse_key false lets one of six requests with one key through that come at once', async () => {
    const client = await profiledClient({ reuse_key: false })
    const key = freshP256Key()
    const orders = await Promise.all([1, 2, 3, 4, 5, 6].map((i) => readyOrder(client, [`race-${i}.test`])))
    const answers = await Promise.all(orders.map((order) => order.finalize({ key })))
    assert.deepEqual(answers.map(({ status }) => status).toSorted(), [200, 400, 400, 400, 400, 400])
    for (const refused of answers.filter(({ status }) => status === 400))
      assertViolations(refused, [/^the key has been certified before/])
  })

  test('renewal_window_days lets one of six requests for one name through that come at once', async () => {
    const client = await profiledClient({ renewal_window_days: 1 })
    const names = (i: number) => ['window-race.test', `window-race-${i}.test`]
    const orders = await Promise.all([1, 2, 3, 4, 5, 6].map((i) => readyOrder(client, names(i))))
    const answers = await Promise.all(orders.map((order) => order.finalize()))
    assert.deepEqual(answers.map(({ status }) => status).toSorted(), [200, 400, 400, 400, 400, 400])
    for (const refused of answers.filter(({ status }) => status === 400))
      assertViolations(refused, [/^a certificate for one of the names is being issued, or valid/])
  })

  test('a name in the common name alone is judged as the SAN that the certificate will carry', async () => {
    const client = await profiledClient({
      wildcard_in_san: false,
      san_regex: '[a-z.-]+\\.allowed\\.test',
      san_types: [],
    })
    const name = 'common-name-only.test'
    const order = await client.newOrder([name])
    await client.authorize(order, responder)
    const csr = await aCsr(P256_KEY, { names: [], subject: `CN=${name}` })
    assertViolations(await client.post(order.json.finalize, { csr: base64url(csr) }), [
      /^subject alternative name common-name-only\.test does not match/,
      /^subject alternative names of type DNS_NAME are not authorized/,
    ])
  })

  test('renewal_window_days refuses a name whose certificate is valid for longer, whosever it is', async () => {
    const other = await registeredClient(service.directoryUrl)
    await other.obtain(['early.test', 'beside.test'], responder)
    const client = await profiledClient({ renewal_window_days: 10 })
    const early = await readyOrder(client, ['new.test', 'early.test'])
    assertViolations(await early.finalize(), [/valid for more than 10 days to come/])
    const fresh = await readyOrder(client, ['new.test'])
    assert.equal((await fresh.finalize()).status, 200)
  })

  test('renewal_window_days allows a certificate inside the window, and one that was revoked', async () => {
    const client = await profiledClient({ renewal_window_days: 10_000 })
    const inWindow = await readyOrder(client, ['window.test'])
    assert.equal((await inWindow.finalize()).status, 200)
    const again = await readyOrder(client, ['window.test'])
    assert.equal((await again.finalize()).status, 200)

    const strict = await profiledClient({ renewal_window_days: 1 })
    const { der } = await strict.obtain(['revoked.test'], responder)
    const renewal = await readyOrder(strict, ['revoked.test'])
    assertViolations(await renewal.finalize(), [/more than 1 days/])
    await revoke(strict, der)
    assert.equal((await renewal.finalize()).status, 200)
  })

  test('an account gets the profile of the credential it registers with, and a later one of its own', async () => {
    const profile = await createProfile({ san_maximum: 0 })
    const credential = await createCredential(service, 'profiled', '--csr-profile', profile)
    const client = await createAcmeClient(service.directoryUrl)
    await client.newAccount({ externalAccountBinding: bindingFor(client, credential) })
    const order = await readyOrder(client, ['by-credential.test'])
    assertViolations(await order.finalize(), [/1 subject alternative names; the maximum is 0/])
    await operate(service, 'profiles', 'assign', await createProfile({}), '--account', idOf(client))
    await operate(service, 'profiles', 'assign', profile, '--eab', 'profiled')
    assert.equal((await order.finalize()).status, 200)
  })

  test('a profile assigned to a credential reaches the accounts registered before', async () => {
    const credential = await createCredential(service, 'later')
    const client = await createAcmeClient(service.directoryUrl)
    await client.newAccount({ externalAccountBinding: bindingFor(client, credential) })
    await operate(service, 'profiles', 'assign', await createProfile({ san_maximum: 0 }), '--eab', 'later')
    const order = await readyOrder(client, ['later.test'])
    assertViolations(await order.finalize(), [/the maximum is 0/])
  })

  describe('on the command line', () => {
    const create = async (text: string, name = 'wrong.yaml') => {
      const file = path.join(service.folder, name)
      writeFileSync(file, text)
      return chancery(service, 'profiles', 'create', file)
    }

    test('reads YAML and JSON, and lists what is there', async () => {
      assert.equal((await create('name: from-yaml\nprofile_data:\n  san_maximum: 3\n')).code, 0)
      assert.equal((await create('{"name": "from-json", "description": "d", "profile_data": {}}', 'p.json')).code, 0)
      const shown = JSON.parse(await operate(service, 'profiles', 'show', 'from-yaml', '--json'))
      assert.deepEqual([shown.account_ids, shown.profile_data], [[], { san_maximum: 3 }])
      assert.match(await operate(service, 'profiles', 'list'), /^\S+ +from-json +d /m)
    })

    test('names every fault of a file', async () => {
      const { code, stderr } = await create(
        'name: faulty\nprofile_data: {san_regex: "(?=a)", reuse_key: 1, san_types: x, san_maximun: 1}\n',
        'faulty.yaml',
      )
      assert.equal(code, 1)
      for (const fault of [
        /faulty\.yaml: profile_data\.san_regex is not a regular expression/,
        /profile_data\.reuse_key must be a boolean/,
        /profile_data\.san_types must be an array/,
        /profile_data\.san_maximun is unknown; did you mean 'san_maximum'\?/,
      ])
        assert.match(stderr, fault)
    })

    test('refuses a file without name or data, a name that is taken, and what is not there', async () => {
      assert.match((await create('profile_data: {}\n')).stderr, /name must be a text/)
      assert.match((await create('name: no-data\n')).stderr, /profile_data must be an object/)
      assert.match((await create('name: [\n')).stderr, /line/)
      await create('name: twice\nprofile_data: {}\n')
      assert.match((await create('name: twice\nprofile_data: {}\n')).stderr, /"twice" already/)
      const assign = (...words: string[]) => chancery(service, 'profiles', 'assign', ...words)
      assert.match((await assign('nothing', '--eab', 'x')).stderr, /no CSR profile "nothing"/)
      assert.match((await assign('twice', '--eab', 'nobody')).stderr, /no credential with the kid "nobody"/)
      assert.match((await assign('twice')).stderr, /name one of --account, --eab/)
    })
  })
})

/** External account binding (RFC 8555 §7.3.4). */

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import {
  type AcmeClient,
  type Answer,
  base64url,
  changeKey,
  closeConnections,
  createAcmeClient,
  csrFor,
  JOSE,
  newAccountKey,
  send,
} from '../support/acme-client.ts'
import { acmeScene } from '../support/acme-scene.ts'
import { runChancery } from '../support/commands.ts'
import { rowsIn } from '../support/database.ts'
import {
  type BindingParts,
  bindingFor,
  chancery,
  createCredential,
  type EabCredential,
  operate,
} from '../support/operator.ts'
import { configOf } from '../support/reload.ts'
import type { TestService } from '../support/service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const secrets = temporaryFolder()
const keyFile = path.join(secrets, 'eab.key')
writeFileSync(keyFile, randomBytes(32))
after(() => {
  closeConnections()
})

/** Whether the kid or the MAC is wrong is not told. */
const REFUSED = /no credential has this kid and this HMAC key/
const freshClient = (service: TestService) => createAcmeClient(service.directoryUrl)

function assertProblem(answer: Answer, type: string, status: number, detail: RegExp): void {
  assert.equal(answer.json.type, `urn:ietf:params:acme:error:${type}`, answer.text)
  assert.equal(answer.status, status)
  assert.match(answer.json.detail, detail)
}

describe('external account binding, required', () => {
  const { service, responder } = acmeScene({
    config: { acme: { eab_required: true, eab_key_file: keyFile }, security: { require_csr_profile: true } },
  })
  before(async () => {
    const file = path.join(service.folder, 'profile.json')
    writeFileSync(file, JSON.stringify({ name: 'anything', profile_data: {} }))
    await operate(service, 'profiles', 'create', file)
  })

  async function boundAccount(credential: EabCredential): Promise<AcmeClient> {
    const client = await freshClient(service)
    const answer = await client.newAccount({ externalAccountBinding: bindingFor(client, credential) })
    assert.equal(answer.status, 201, answer.text)
    return client
  }

  test('the directory says externalAccountRequired (§7.1.1)', async () => {
    const client = await freshClient(service)
    assert.equal(
      (client.directory as { meta?: { externalAccountRequired?: boolean } }).meta?.externalAccountRequired,
      true,
    )
  })

  test('a new account without a binding is externalAccountRequired (§7.3.4)', async () => {
    const client = await freshClient(service)
    assertProblem(await client.newAccount(), 'externalAccountRequired', 400, /needs an externalAccountBinding/)
  })

  for (const alg of ['HS256', 'HS384', 'HS512']) {
    test(`a binding with ${alg} is accepted, and the account object shows it (§7.1.2)`, async () => {
      const credential = await createCredential(service, `good-${alg}`)
      const client = await freshClient(service)
      const binding = bindingFor(client, credential, { alg })
      const answer = await client.newAccount({ externalAccountBinding: binding })
      assert.equal(answer.status, 201, answer.text)
      assert.deepEqual(answer.json.externalAccountBinding, binding)
      assert.deepEqual((await client.post(client.kid)).json.externalAccountBinding, binding)
    })
  }

  test('an account with a binding obtains a certificate', async () => {
    const client = await boundAccount(await createCredential(service, 'issues', '--csr-profile', 'anything'))
    const { chain } = await client.obtain(['bound.test'], responder)
    assert.match(chain, /BEGIN CERTIFICATE/)
  })

  test('security.require_csr_profile: an account without a CSR profile gets no certificate until it has one', async () => {
    const client = await boundAccount(await createCredential(service, 'unprofiled'))
    const order = await client.newOrder(['required.test'])
    await client.authorize(order, responder)
    const finalize = async () => client.post(order.json.finalize, { csr: await csrFor(['required.test']) })
    assertProblem(await finalize(), 'badCSR', 400, /this account has no CSR profile/)
    assert.equal((await client.post(String(order.headers.location))).json.status, 'ready')
    await operate(service, 'profiles', 'assign', 'anything', '--account', client.kid.slice(-36))
    assert.equal((await finalize()).status, 200)
  })

  test('another spelling of the account key in the payload is the same key', async () => {
    const credential = await createCredential(service, 'spelling')
    const client = await freshClient(service)
    const { kty, crv, x, y } = client.key.jwk as Record<string, string>
    const payload = JSON.stringify({ use: 'sig', y, x, crv, kty }, null, 2)
    const answer = await client.newAccount({ externalAccountBinding: bindingFor(client, credential, { payload }) })
    assert.equal(answer.status, 201, answer.text)
  })

  test('members of the binding that nobody has defined are ignored (RFC 7515 §7.2.1)', async () => {
    const client = await freshClient(service)
    const binding = bindingFor(client, await createCredential(service, 'further'))
    const answer = await client.newAccount({ externalAccountBinding: { ...binding, comment: 'hello' } })
    assert.equal(answer.status, 201, answer.text)
    assert.deepEqual(answer.json.externalAccountBinding, binding)
  })

  describe('what is wrong with a binding is said, and uses nothing up', () => {
    let credential: EabCredential
    before(async () => {
      credential = await createCredential(service, 'patient')
    })

    type Make = (client: AcmeClient) => unknown
    const right = (client: AcmeClient) => bindingFor(client, credential)
    const withParts =
      (parts: BindingParts | ((client: AcmeClient) => BindingParts)): Make =>
      (client) =>
        bindingFor(client, credential, typeof parts === 'function' ? parts(client) : parts)
    const header = (members: Record<string, unknown>) => withParts({ header: members })
    const changed =
      (change: (binding: ReturnType<typeof right>) => object): Make =>
      (client) => ({ ...right(client), ...change(right(client)) })
    const withKid =
      (kid: string): Make =>
      (client) =>
        bindingFor(client, { ...credential, kid })

    const cases: Record<string, [what: string, binding: Make, detail: RegExp][]> = {
      '400 externalAccountRequired': [['null, as if there were none', () => null, /needs an externalAccountBinding/]],
      '400 malformed': [
        ['a text', () => 'eab', /must be a flattened JWS, an object/],
        ['a list', () => [], /must be a flattened JWS, an object/],
        ['no signature', changed(() => ({ signature: undefined })), /signature is missing/],
        ['an unprotected header', changed(() => ({ header: {} })), /not have the member header/],
        ['signatures', changed(() => ({ signatures: [] })), /not have the member signatures/],
        ['padding', changed(({ signature }) => ({ signature: `${signature}=` })), /signature is not canonical/],
        ['a header that is no JSON', withParts({ headerText: '{' }), /header is not valid JSON/],
        ['a duplicate header member', withParts({ headerText: '{"alg":"HS256","alg":"HS256"}' }), /duplicate member/],
        ['no alg', header({ alg: undefined }), /no alg/],
        ['no kid', header({ kid: undefined }), /no kid/],
        ['an empty kid', header({ kid: '' }), /no kid/],
        ['a kid that is no text', header({ kid: 7 }), /no kid/],
        ['a kid that is too long', header({ kid: 'k'.repeat(256) }), /255 characters/],
        ['a kid with NUL', withKid('pat\0ient'), /control characters/],
        ['a nonce', header({ nonce: 'AAAA' }), /has a nonce/],
        ['a jwk', withParts(({ key }) => ({ header: { jwk: key.jwk } })), /has a jwk/],
        ['crit', header({ crit: ['exp'] }), /crit or b64/],
        ['b64', header({ b64: false }), /crit or b64/],
        ['no url', header({ url: undefined }), /no url/],
        [
          'another url',
          withParts(({ directory }) => ({ header: { url: directory['newOrder'] } })),
          /url of its protected header is not/,
        ],
        ['an empty payload', withParts({ payload: '' }), /payload is empty/],
        ['a payload that is no JSON', withParts({ payload: 'x' }), /payload is not valid JSON/],
        ['another key', withParts({ payload: JSON.stringify(newAccountKey().jwk) }), /payload is not the key/],
        ['a payload that is no key', withParts({ payload: '{}' }), /payload is not the key/],
      ],
      '400 badSignatureAlgorithm': [
        ['alg none', header({ alg: 'none' }), /must be a MAC/],
        ['a signature alg', header({ alg: 'ES256' }), /HS256, HS384, HS512/],
      ],
      '403 unauthorized': [
        ['another HMAC key', (client) => bindingFor(client, { ...credential, hmacKey: randomBytes(32) }), REFUSED],
        [
          'the text of the HMAC key in place of the key',
          (client) => bindingFor(client, { ...credential, hmacKey: Buffer.from(base64url(credential.hmacKey)) }),
          /the MAC was made with the text of the HMAC key; its key is what that base64url decodes to/,
        ],
        [
          'a MAC cut short',
          changed(({ signature }) => ({
            signature: base64url(Buffer.from(signature, 'base64url').subarray(0, 16)),
          })),
          REFUSED,
        ],
        ['an empty MAC', changed(() => ({ signature: '' })), REFUSED],
        ['an unknown kid', withKid('nobody'), REFUSED],
        ['a kid in another case', withKid('Patient'), REFUSED],
      ],
    }
    for (const [problem, rows] of Object.entries(cases)) {
      const [status = '', type = ''] = problem.split(' ')
      for (const [what, binding, detail] of rows)
        test(`${what}: ${type}`, async () => {
          const client = await freshClient(service)
          const answer = await client.newAccount({ externalAccountBinding: binding(client) })
          assertProblem(answer, type, Number(status), detail)
        })
    }

    test('after all the refusals the right binding is accepted', async () => {
      await boundAccount(credential)
    })
  })

  test('a credential that was used is refused to another key, and says so', async () => {
    const credential = await createCredential(service, 'once')
    await boundAccount(credential)
    const second = await freshClient(service)
    const answer = await second.newAccount({ externalAccountBinding: bindingFor(second, credential) })
    assertProblem(answer, 'unauthorized', 403, /has been used by another account/)
  })

  test('of registrations that race for one credential exactly one makes an account', async () => {
    const credential = await createCredential(service, 'race')
    const clients = await Promise.all(Array.from({ length: 8 }, () => freshClient(service)))
    const answers = await Promise.all(
      clients.map((client) => client.newAccount({ externalAccountBinding: bindingFor(client, credential) })),
    )
    const made = answers.filter(({ status }) => status === 201)
    assert.equal(made.length, 1, answers.map(({ text }) => text).join('\n'))
    for (const answer of answers)
      if (answer.status !== 201) assertProblem(answer, 'unauthorized', 403, /used (?:by another account|or revoked)/)
    const [row] = await rowsIn<{ accounts: string }>(
      service.database,
      'SELECT count(*) AS accounts FROM accounts a JOIN eab_credentials e ON a.eab_credential_id = e.id WHERE e.kid = $1',
      ['race'],
    )
    assert.equal(row?.accounts, '1')
  })

  test('one key that registers twice at once uses one credential and has one account', async () => {
    const [one, two] = [await createCredential(service, 'twin-1'), await createCredential(service, 'twin-2')]
    const client = await freshClient(service)
    const answers = await Promise.all(
      [one, two].map((credential) => client.newAccount({ externalAccountBinding: bindingFor(client, credential) })),
    )
    assert.deepEqual(answers.map(({ status }) => status).sort(), [200, 201])
    assert.equal(answers[0]?.headers.location, answers[1]?.headers.location)
    const used = await rowsIn(service.database, "SELECT kid FROM eab_credentials WHERE kid LIKE 'twin-%' AND used")
    assert.equal(used.length, 1)
  })

  test('an account that exists is found whatever its binding, and never bound anew (§7.3.1)', async () => {
    const [first, second] = [await createCredential(service, 'first'), await createCredential(service, 'second')]
    const client = await boundAccount(first)
    const before = (await client.post(client.kid)).json.externalAccountBinding
    const attempts = [
      undefined,
      'nonsense',
      bindingFor(client, second),
      bindingFor(client, { ...second, hmacKey: randomBytes(32) }),
      bindingFor(client, first),
    ]
    for (const externalAccountBinding of attempts) {
      const answer = await client.newAccount({ externalAccountBinding })
      assert.equal(answer.status, 200, answer.text)
      assert.deepEqual(answer.json.externalAccountBinding, before)
    }
    const found = await client.newAccount({ onlyReturnExisting: true })
    assert.equal(found.status, 200)
    const rows = await rowsIn<{ kid: string; used: boolean }>(
      service.database,
      "SELECT kid, used FROM eab_credentials WHERE kid IN ('first', 'second') ORDER BY kid",
    )
    assert.deepEqual(rows, [
      { kid: 'first', used: true },
      { kid: 'second', used: false },
    ])
  })

  test('onlyReturnExisting of an unknown key is accountDoesNotExist, without a binding too', async () => {
    const client = await freshClient(service)
    assertProblem(await client.newAccount({ onlyReturnExisting: true }), 'accountDoesNotExist', 400, /no account/)
  })

  test('a request that is refused for its contact uses no credential up', async () => {
    const credential = await createCredential(service, 'contact')
    const client = await freshClient(service)
    const externalAccountBinding = bindingFor(client, credential)
    const refused = await client.newAccount({ contact: ['mailto:nobody'], externalAccountBinding })
    assert.equal(refused.json.type, 'urn:ietf:params:acme:error:invalidContact')
    assert.equal((await client.newAccount({ externalAccountBinding })).status, 201)
  })

  test('the binding survives a change of the account key (§7.3.5)', async () => {
    const client = await boundAccount(await createCredential(service, 'rollover'))
    const before = (await client.post(client.kid)).json.externalAccountBinding
    const answer = await changeKey(client, newAccountKey())
    assert.equal(answer.status, 200, answer.text)
    assert.deepEqual(answer.json.externalAccountBinding, before)
  })

  describe('a credential that is revoked', () => {
    test('is refused, and says so', async () => {
      const credential = await createCredential(service, 'withdrawn')
      await operate(service, 'eab', 'revoke', 'withdrawn')
      const client = await freshClient(service)
      const answer = await client.newAccount({ externalAccountBinding: bindingFor(client, credential) })
      assertProblem(answer, 'unauthorized', 403, /has been revoked/)
    })

    test('takes its accounts and their authorizations with it', async () => {
      const credential = await createCredential(service, 'cascade', '--csr-profile', 'anything')
      const client = await boundAccount(credential)
      await client.obtain(['cascade.test'], responder)
      await client.newOrder(['pending.test'])
      const printed = await operate(service, 'eab', 'revoke', 'cascade')
      const accountId = client.kid.split('/').at(-1) as string
      assert.match(printed, new RegExp(`account ${accountId} is revoked`))
      assertProblem(await client.post(client.kid), 'unauthorized', 401, /account is revoked/)
      assertProblem(await client.newOrder(['again.test']), 'unauthorized', 401, /account is revoked/)
      // Nor is it found or made anew by its key (§7.3.6).
      for (const payload of [
        { onlyReturnExisting: true },
        { externalAccountBinding: bindingFor(client, credential) },
        {},
      ])
        assertProblem(await client.newAccount(payload), 'unauthorized', 401, /account of this key is revoked/)
      const statuses = await rowsIn<{ status: string }>(
        service.database,
        'SELECT DISTINCT status FROM authorizations WHERE account_id = $1',
        [accountId],
      )
      assert.deepEqual(statuses, [{ status: 'deactivated' }])
    })

    test('may be revoked again, and leaves a deactivated account as it is', async () => {
      const client = await boundAccount(await createCredential(service, 'gone'))
      await client.post(client.kid, { status: 'deactivated' })
      for (let time = 0; time < 2; time++)
        assert.equal((await operate(service, 'eab', 'revoke', 'gone')).trim(), 'gone is revoked')
      const id = client.kid.split('/').at(-1)
      const rows = await rowsIn(service.database, 'SELECT status FROM accounts WHERE id = $1', [id])
      assert.deepEqual(rows, [{ status: 'deactivated' }])
    })
  })

  describe('the command line', () => {
    test('keeps a kid of digits as it was typed', async () => {
      await boundAccount(await createCredential(service, '007'))
    })

    test('refuses a kid that is taken, and one that is missing', async () => {
      await createCredential(service, 'taken')
      for (const [words, expected] of [
        [['--kid', 'taken'], 1],
        [[], 2],
        [['--kid', ' '], 2],
      ] as const) {
        const { code, stderr } = await chancery(service, 'eab', 'create', ...words)
        assert.equal(code, expected)
        assert.match(stderr, /taken|--kid takes/)
      }
    })

    test('refuses to revoke what is not there', async () => {
      const { code, stderr } = await chancery(service, 'eab', 'revoke', 'nobody')
      assert.equal(code, 1)
      assert.match(stderr, /no credential with the kid "nobody"/)
    })

    test('lists credentials with their state and never with their key', async () => {
      const { hmacKey } = await createCredential(service, 'listed', '--label', 'for the list')
      const printed = await operate(service, 'eab', 'list', '--all')
      assert.match(printed, /^\S+ +listed +for the list +- +false +false /m)
      assert.match(printed, /^\S+ +once +\S* +false +true /m)
      assert.match(printed, /^\S+ +gone +\S* +true +true /m)
      assert.match(await operate(service, 'eab', 'show', 'once'), /^account id +[0-9a-f-]{36}$/m)
      assert.ok(!printed.includes(hmacKey.toString('base64url')))
    })
  })

  test('a key file that is no key refuses the start in a plain sentence', async () => {
    const short = path.join(secrets, 'short.key')
    writeFileSync(short, 'secret')
    const file = path.join(service.folder, 'short.yaml')
    writeFileSync(file, configOf(service).text().replace(keyFile, short))
    const { code, stderr } = await runChancery(['-c', file, 'serve'])
    assert.equal(code, 1)
    assert.match(stderr, /acme\.eab_key_file: .*short\.key has 6 bytes; it needs at least 32/)
  })

  test('HMAC keys are in neither the database nor the log', async () => {
    const { hmacKey, kid } = await createCredential(service, 'secret')
    await boundAccount({ kid, hmacKey })
    const [row] = await rowsIn<{ hmac_key: Buffer }>(
      service.database,
      "SELECT hmac_key FROM eab_credentials WHERE kid = 'secret'",
    )
    assert.ok(row && !row.hmac_key.includes(hmacKey))
    await service.untilLogged('the account', (line) => line.event === 'account_created' && line.eabKid === 'secret')
    const log = JSON.stringify(service.log)
    for (const encoding of ['base64url', 'base64', 'hex'] as const) assert.ok(!log.includes(hmacKey.toString(encoding)))
  })
})

describe('external account binding, not required', () => {
  const { service } = acmeScene('credentials')

  test('the directory says that none is required', async () => {
    const client = await freshClient(service)
    assert.deepEqual(client.directory['meta'], { externalAccountRequired: false })
  })

  test('without ari.enabled there is no renewal information (RFC 9773 §3)', async () => {
    assert.equal('renewalInfo' in (await freshClient(service)).directory, false)
    assert.equal((await send({ method: 'GET', url: `${service.baseUrl}/renewalInfo/AQ.AQ` })).status, 404)
  })

  test('an account without a binding is made, and shows none', async () => {
    const client = await freshClient(service)
    const answer = await client.newAccount()
    assert.equal(answer.status, 201)
    assert.ok(!('externalAccountBinding' in answer.json))
  })

  test('a binding is checked all the same', async () => {
    const credential = await createCredential(service, 'optional')
    const client = await freshClient(service)
    const wrong = bindingFor(client, { ...credential, hmacKey: randomBytes(32) })
    assertProblem(await client.newAccount({ externalAccountBinding: wrong }), 'unauthorized', 403, REFUSED)
    const bound = await client.newAccount({ externalAccountBinding: bindingFor(client, credential) })
    assert.equal(bound.status, 201)
    assert.ok('externalAccountBinding' in bound.json)
  })

  describe('reusable', () => {
    test('several accounts register with one credential, also at once, and go with it', async () => {
      const credential = await createCredential(service, 'shared')
      const clients = await Promise.all(Array.from({ length: 4 }, () => freshClient(service)))
      const answers = await Promise.all(
        clients.map((client) => client.newAccount({ externalAccountBinding: bindingFor(client, credential) })),
      )
      assert.deepEqual(
        answers.map(({ status }) => status),
        [201, 201, 201, 201],
      )
      await operate(service, 'eab', 'revoke', 'shared')
      for (const client of clients) assertProblem(await client.post(client.kid), 'unauthorized', 401, /is revoked/)
    })
  })

  describe('a credential for some networks, behind a proxy', () => {
    for (const [what, forwarded, status] of [
      ['a client that the proxy names', '192.0.2.5', 201],
      ['the same as a proxy on IPv6 writes it', '::ffff:192.0.2.5', 201],
      ['another client of the network that the proxy is in', '127.0.0.2', 201],
      ['a client elsewhere', '203.0.113.5', 403],
      ['a client that the proxy does not name', undefined, 403],
      ['a client that the proxy cannot name', 'unknown', 403],
    ] as const)
      test(`${what}: ${status}`, async () => {
        const credential = await createCredential(service, what, '--from', '192.0.2.0/24', '--from', '127.0.0.0/8')
        const client = await freshClient(service)
        const url = client.directory['newAccount'] as string
        const payload = { externalAccountBinding: bindingFor(client, credential) }
        const body = JSON.stringify(await client.jws(url, { withJwk: true, payload }))
        const headers = { ...JOSE, ...(forwarded !== undefined && { 'X-Forwarded-For': forwarded }) }
        const answer = await send({ url, headers, body })
        assert.equal(answer.status, status, answer.text)
        if (status === 403) assertProblem(answer, 'unauthorized', 403, /may not be used from this address/)
      })
  })
})

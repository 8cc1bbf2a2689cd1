/** Clients of a former server go on under the URLs that they know (docs/decisions/path-map.md). */

import assert from 'node:assert/strict'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import {
  type AccountKeyPair,
  type AcmeClient,
  base64url,
  closeConnections,
  createAcmeClient,
  newAccountKey,
  type Responder,
  send,
  signedJws,
  startResponder,
} from '../support/acme-client.ts'
import { type FormerAcmeeh, formerAcmeeh } from '../support/acmeeh.ts'
import { runChancery } from '../support/commands.ts'
import { rowsIn } from '../support/database.ts'
import { operate } from '../support/operator.ts'
import { requireCommand } from '../support/requirements.ts'
import { mustRun } from '../support/run-command.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const OLD = '/old/api'

const importInto = ({ folder }: TestService, { address, environment }: FormerAcmeeh) =>
  runChancery(
    ['-c', path.join(folder, 'config.yaml'), 'import', 'acmeeh', '--from', address, '--base-path', OLD],
    environment,
  )

describe('an account under its former URL', () => {
  let service: TestService
  let former: FormerAcmeeh
  let responder: Responder
  const ids = new Map<AccountKeyPair, string>()
  const keys = Array.from({ length: 4 }, () => newAccountKey()) as [
    AccountKeyPair,
    AccountKeyPair,
    AccountKeyPair,
    AccountKeyPair,
  ]
  const [ordering, leaving, changing, other] = keys

  before(async () => {
    former = await formerAcmeeh()
    for (const key of keys) ids.set(key, await former.addAccount(key.jwk, { contacts: ['mailto:ops@example.com'] }))
    service = await startTestService({
      config: {
        acme: { directory_aliases: [`${OLD}/directory`, '/acme/acme/directory'] },
        challenges: {
          enabled: ['http-01', 'dns-persist-01'],
          dnspersist01: { issuer_domain_names: ['ca.example.test'] },
        },
      },
    })
    responder = await startResponder(service.http01Port)
    const { code, stderr } = await importInto(service, former)
    assert.equal(code, 0, stderr)
  })
  after(async () => {
    closeConnections()
    await responder.close()
    await service.dispose()
    await former.drop()
  })

  const urlOf = (key: AccountKeyPair) => `${service.baseUrl}${OLD}/acct/${ids.get(key)}`
  async function clientOf(key: AccountKeyPair): Promise<AcmeClient> {
    const client = await createAcmeClient(`${service.baseUrl}${OLD}/directory`, key)
    client.kid = urlOf(key)
    return client
  }

  test('reads the directory at its former place, which names the places of now', async () => {
    const now = await send({ method: 'GET', url: service.directoryUrl })
    for (const alias of [`${OLD}/directory`, '/acme/acme/directory']) {
      const answer = await send({ method: 'GET', url: service.baseUrl + alias })
      assert.deepEqual([answer.status, answer.json], [200, now.json])
    }
    const client = await clientOf(ordering)
    assert.deepEqual((await client.post(`${service.baseUrl}${OLD}/directory`)).json, now.json)
  })

  test('is read, changed and deactivated there', async () => {
    const client = await clientOf(leaving)
    const read = await client.post(client.kid)
    assert.deepEqual([read.status, read.json.status, read.json.contact], [200, 'valid', ['mailto:ops@example.com']])
    const changed = await client.post(client.kid, { contact: ['mailto:new@example.com'] })
    assert.deepEqual(changed.json.contact, ['mailto:new@example.com'])
    assert.equal((await client.post(read.json.orders)).status, 200)
    assert.equal((await client.post(client.kid, { status: 'deactivated' })).json.status, 'deactivated')
    assert.equal((await client.post(client.kid)).status, 401)
  })

  test('orders, and gets a certificate', async () => {
    const client = await clientOf(ordering)
    const { der } = await client.obtain(['former.test'], responder)
    const revoked = await client.post(client.directory['revokeCert'] as string, { certificate: base64url(der) })
    assert.equal(revoked.status, 200)
  })

  test('has the URL of now, too: both work', async () => {
    const client = await clientOf(ordering)
    const found = await client.newAccount({ onlyReturnExisting: true })
    assert.equal(found.status, 200)
    assert.match(client.kid, /^http:\/\/[^/]+\/acct\/[0-9a-f-]{36}$/)
    for (const kid of [client.kid, urlOf(ordering)]) {
      const answer = await client.post(kid, undefined, { header: { kid } })
      assert.deepEqual([answer.status, answer.json.status], [200, 'valid'])
    }
  })

  test('is named by dns-persist-01 as its client names it', async () => {
    const client = await clientOf(ordering)
    const uriFor = async (kid: string) => {
      client.kid = kid
      const order = await client.newOrder(['persist.test'])
      const { json } = await client.post(order.json.authorizations[0])
      return json.challenges.find(({ type }: { type: string }) => type === 'dns-persist-01').accounturi
    }
    const here = String((await client.newAccount({ onlyReturnExisting: true })).headers.location)
    assert.equal(await uriFor(urlOf(ordering)), urlOf(ordering))
    assert.equal(await uriFor(here), here)
  })

  test('changes its key under the URL that its client knows', async () => {
    const client = await clientOf(changing)
    const newKey = newAccountKey()
    const url = client.directory['keyChange'] as string
    const inner = (account: string) =>
      signedJws(newKey, { alg: newKey.alg, url, jwk: newKey.jwk }, { payload: { account, oldKey: changing.jwk } })
    const wrong = await client.post(url, inner(urlOf(other)))
    assert.match(wrong.text, /not the account that signed/)
    assert.equal((await client.post(url, inner(client.kid))).status, 200)
    assert.equal((await client.post(client.kid, undefined, { key: newKey })).status, 200)
    assert.equal((await client.post(client.kid)).status, 403)
  })

  test('belongs to nobody else: a stranger gets what an unknown path gets', async () => {
    const client = await clientOf(ordering)
    assert.equal((await client.post(urlOf(other))).status, 404)
    assert.equal((await client.post(urlOf(other), undefined, { header: { kid: urlOf(other) } })).status, 403)
    const unknown = `${service.baseUrl}${OLD}/acct/nobody`
    assert.match((await client.post(unknown, undefined, { header: { kid: unknown } })).text, /accountDoesNotExist/)
    assert.equal((await client.post(unknown)).status, 404)
    assert.equal((await send({ url: unknown, body: 'no request of ACME' })).status, 404)
    assert.equal((await send({ method: 'GET', url: urlOf(ordering) })).status, 404)
    const elsewhere = `http://elsewhere.example${OLD}/acct/${ids.get(ordering)}`
    const refused = await client.post(client.directory['newOrder'] as string, {}, { header: { kid: elsewhere } })
    assert.match(refused.text, /accountDoesNotExist/)
    const long = `${service.baseUrl}/${'x'.repeat(300)}`
    assert.match((await client.post(long, undefined, { header: { kid: long } })).text, /accountDoesNotExist/)
    const nul = { header: { kid: `${service.baseUrl}/x\0` } }
    assert.match((await client.post(client.directory['newOrder'] as string, {}, nul)).text, /accountDoesNotExist/)
  })
})

describe('clients that nobody has touched', () => {
  const folder = temporaryFolder()
  let service: TestService
  let former: FormerAcmeeh
  let names: string[]
  const atOldPaths = { api: { base_path: OLD }, database: { reconcile: 'manual' } }

  const lego = (server: TestService, ...words: string[]) =>
    mustRun('lego', [
      ...['--server', `${server.baseUrl}${OLD}/directory`, '--email', 'ops@lego.test', '--accept-tos'],
      ...['--path', path.join(folder, 'lego'), '--http', '--http.port', `:${server.http01Port}`],
      ...['--domains', 'lego.test', ...words],
    ])
  const certbot = (server: TestService, ...words: string[]) =>
    mustRun('certbot', [
      ...words,
      ...['config', 'work', 'logs'].flatMap((name) => [`--${name}-dir`, path.join(folder, 'certbot', name)]),
      ...['-n', '--http-01-port', String(server.http01Port)],
    ])

  /** A server with paths of its own is left by its clients' side, and its data go where ACMEEH would have them. */
  before(async () => {
    former = await formerAcmeeh()
    service = await startTestService({ config: atOldPaths })
  })
  after(async () => {
    await service.dispose()
    await former.drop()
  })

  async function move(): Promise<TestService> {
    const accounts = await rowsIn<{ id: string; jwk: string }>(service.database, 'SELECT id, jwk FROM accounts')
    for (const { id, jwk } of accounts) await former.addAccount(JSON.parse(jwk), { id })
    const certificates = await rowsIn<{ account_id: string; pem: string; names: string[] }>(
      service.database,
      `SELECT account_id, names,
              E'-----BEGIN CERTIFICATE-----\\n' || encode(der, 'base64') || E'\\n-----END CERTIFICATE-----\\n' AS pem
         FROM certificates WHERE account_id IS NOT NULL`,
    )
    for (const { account_id, pem } of certificates) await former.addCertificate(account_id, pem)
    names = certificates.flatMap((one) => one.names).sort()
    await service.stop()
    await rowsIn(service.database, 'TRUNCATE accounts, orders, authorizations, certificates CASCADE')
    const config = { acme: { directory_aliases: [`${OLD}/directory`] }, database: { reconcile: 'manual' } }
    return startTestService({ continueFrom: service, config })
  }

  test('lego and certbot renew here', {
    skip: requireCommand('lego').skip || requireCommand('certbot').skip,
  }, async () => {
    await lego(service, 'run')
    const first = ['certonly', '--standalone', '--agree-tos', '-m', 'ops@certbot.test', '-d', 'certbot.test']
    await certbot(service, ...first, '--server', `${service.baseUrl}${OLD}/directory`)

    const here = await move()
    try {
      const { code, stderr, stdout } = await importInto(here, former)
      assert.equal(code, 0, stderr + stdout)
      assert.deepEqual(names, ['certbot.test', 'lego.test'])
      await lego(here, 'renew', '--days', '3650', '--no-random-sleep')
      await certbot(here, 'renew', '--force-renewal', '--no-random-sleep-on-renew')
      const shown = await rowsIn<{ name: string; certificates: number; owners: number }>(
        here.database,
        `SELECT names[1] AS name, count(*)::integer AS certificates, count(DISTINCT account_id)::integer AS owners
           FROM certificates GROUP BY 1 ORDER BY 1`,
      )
      assert.deepEqual(shown, [
        { name: 'certbot.test', certificates: 2, owners: 1 },
        { name: 'lego.test', certificates: 2, owners: 1 },
      ])
      await operate(here, 'db', 'status')
    } finally {
      await here.dispose()
    }
  })
})

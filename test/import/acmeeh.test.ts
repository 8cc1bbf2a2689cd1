/** `chancery import acmeeh`: the books of the former server and of this one are the same; a repeat changes nothing. */

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { ensureDevCa } from '../../src/dev/dev-ca.ts'
import type { ImportReport, KindReport } from '../../src/import/model.ts'
import { uuidTime } from '../../src/shared/lib/uuid.ts'
import {
  type AcmeClient,
  base64url,
  closeConnections,
  createAcmeClient,
  newAccountKey,
  type Responder,
  send,
  startResponder,
} from '../support/acme-client.ts'
import { type FormerAcmeeh, formerAcmeeh, werkzeugHash } from '../support/acmeeh.ts'
import { adminConfig, signIn } from '../support/admin.ts'
import { type FormerCertificate, issueFormerly } from '../support/cas/former-ca.ts'
import { certIdOf } from '../support/certificate-id.ts'
import { runChancery } from '../support/commands.ts'
import { readCrl } from '../support/crl.ts'
import { sqlOn } from '../support/database.ts'
import { bindingFor, operate } from '../support/operator.ts'
import { wordsOf } from '../support/page-blocks.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { words } from '../support/words.ts'

const KEYS = {
  alice: newAccountKey('ES256'),
  bob: newAccountKey('RS256'),
  carol: newAccountKey('ES384'),
  dora: newAccountKey('ES256'),
}
const HMAC_KEY = randomBytes(32)

describe('an ACMEEH that is taken over', () => {
  let service: TestService
  let former: FormerAcmeeh
  let responder: Responder
  const ids: Record<string, string> = {}
  const issued: Record<string, FormerCertificate> = {}

  const sql = sqlOn(() => service.database)
  before(async () => {
    former = await formerAcmeeh()
    service = await startTestService({
      config: { ...adminConfig(), acme: { eab_reusable: true }, ari: { enabled: true }, crl: { enabled: true } },
    })
    responder = await startResponder(service.http01Port)
    // The issuer is known to the database with its first certificate.
    await operate(service, 'ca', 'test-sign')
    await sql(
      `INSERT INTO event_consumers (name, kinds)
       VALUES ('listener', '{account.registration,account.deactivation,certificate.issuance,certificate.revocation}')`,
    )
    await fill()
  })
  after(async () => {
    closeConnections()
    await responder.close()
    await service.dispose()
    await former.drop()
  })

  /** Four accounts, two credentials, seven certificates of which one is of a stranger's CA, grants, users and a log. */
  async function fill() {
    for (const [kid, revoked] of [
      ['team-a', false],
      ['team-gone', true],
    ])
      await former.query('INSERT INTO admin.eab_credentials (kid, hmac_key, label, revoked) VALUES ($1, $2, $1, $3)', [
        kid,
        HMAC_KEY.toString('base64url'),
        revoked,
      ])
    ids['alice'] = await former.addAccount(KEYS.alice.jwk, {
      kid: 'team-a',
      contacts: ['mailto:alice@example.com', 'mailto:ops@example.com'],
      createdAt: new Date('2024-05-06T07:08:09Z'),
    })
    ids['bob'] = await former.addAccount(KEYS.bob.jwk, { contacts: ['mailto:bob@example.com?subject=x'] })
    ids['carol'] = await former.addAccount(KEYS.carol.jwk)
    ids['dora'] = await former.addAccount(KEYS.dora.jwk)
    await former.query("UPDATE accounts SET status = 'deactivated' WHERE id = $1", [ids['dora']])

    const { files: stranger } = await ensureDevCa(path.join(service.folder, 'stranger'), new Date())
    issued['www'] = await issueFormerly(service.ca, ['www.alice.test'])
    issued['counted'] = await issueFormerly(service.ca, ['counted.alice.test'], '05')
    issued['stolen'] = await issueFormerly(service.ca, ['stolen.bob.test'])
    issued['odd'] = await issueFormerly(service.ca, ['odd.bob.test'])
    for (const name of ['www', 'counted']) await former.addCertificate(ids['alice'], issued[name]?.pem ?? '')
    await former.addCertificate(ids['bob'], issued['stolen'].pem, { at: new Date('2025-01-02T03:04:05Z'), reason: 1 })
    // A CRL can hold neither this reason nor a time to come.
    await former.addCertificate(ids['bob'], issued['odd'].pem, { at: new Date(Date.now() + 86_400_000), reason: 8 })
    await former.addCertificate(ids['bob'], 'no certificate at all')
    await former.addCertificate(ids['bob'], (await issueFormerly(stranger, ['www.bob.test'])).pem)
    await former.addCertificate(ids['bob'], readFileSync(service.ca.intermediate, 'utf8'))

    await former.query(`
      INSERT INTO admin.allowed_identifiers (identifier_type, identifier_value)
      VALUES ('dns', '*.alice.test'), ('ip', '192.0.2.7'), ('dns', 'not a name');
      INSERT INTO admin.eab_allowed_identifiers
      SELECT i.id, e.id FROM admin.allowed_identifiers i, admin.eab_credentials e WHERE i.identifier_value = '*.alice.test' AND kid = 'team-a';
      INSERT INTO admin.account_allowed_identifiers
      SELECT i.id, a.id FROM admin.allowed_identifiers i, accounts a
       WHERE (identifier_value = '*.alice.test' AND a.id = '${ids['alice']}') OR (identifier_value = '192.0.2.7' AND a.id = '${ids['bob']}');
      INSERT INTO admin.csr_profiles (name, profile_data) VALUES
        ('servers', '{"san_maximum": 5, "wildcard_in_san": false, "a member of another release": true}'),
        ('wrong', '{"san_regex": "(unclosed"}'), ('no key twice', '{"reuse_key": false}');
      INSERT INTO admin.account_csr_profiles SELECT '${ids['bob']}', id FROM admin.csr_profiles WHERE name = 'servers';
      INSERT INTO admin.audit_log (action, details, ip_address, created_at) VALUES
        ('login', NULL, '192.0.2.1', '2025-01-01T00:00:00.0001Z'), ('create_eab', '{"kid": "team-a"}', NULL, '2025-01-01T00:00:00.0002Z'),
        ('login', NULL, '192.0.2.1', '2025-01-03T00:00:00Z')`)
    for (const [username, hash] of [
      ['root.one', werkzeugHash('a password of old')],
      ['root.two', `pbkdf2:sha256:260000$salt$${'0'.repeat(64)}`],
    ])
      await former.query(
        "INSERT INTO admin.users (username, email, password_hash, role) VALUES ($1, 'one@example.com', $2, 'admin')",
        [username, hash],
      )
  }

  const run = (...words: string[]) =>
    runChancery(['-c', path.join(service.folder, 'config.yaml'), 'import', 'acmeeh', ...words], former.environment)

  /** @returns the report; the exit code says whether something was skipped */
  async function imported(...words: string[]): Promise<ImportReport> {
    const { code, stdout, stderr } = await run('--from', former.address, '--json', ...words)
    assert.ok(code === 0 || code === 1, stderr)
    const report = JSON.parse(stdout) as ImportReport
    const skipped = Object.values(report).some(
      (kind) => typeof kind === 'object' && 'skipped' in kind && kind.skipped > 0,
    )
    assert.equal(code, skipped ? 1 : 0, stderr)
    return report
  }

  /** Under its former URL. */
  async function clientOf(name: keyof typeof KEYS, key = KEYS[name]): Promise<AcmeClient> {
    const client = await createAcmeClient(service.directoryUrl, key)
    client.kid = `${service.baseUrl}/acct/${ids[name]}`
    return client
  }

  const numbers = (kind: KindReport | undefined) =>
    kind && [kind.read, kind.new, kind.changed, kind.known, kind.skipped]

  const TABLES = words`
    accounts account_paths eab_credentials certificates csr_profiles allowed_identifiers admin_users admin_audit_log
    account_allowed_identifiers account_csr_profiles
  `
  async function rowCounts(): Promise<Record<string, number>> {
    const counts = TABLES.map((table) => `(SELECT count(*)::integer FROM ${table}) AS ${table}`)
    const [row] = await sql<Record<string, number>>(`SELECT ${counts.join(', ')}`)
    return row ?? {}
  }

  const FIRST = {
    credentials: [2, 2, 0, 0, 0],
    accounts: [4, 4, 0, 0, 0],
    identifiers: [3, 2, 0, 0, 1],
    profiles: [3, 1, 0, 0, 2],
    certificates: [7, 4, 0, 0, 3],
    administrators: [2, 1, 0, 0, 1],
    audit_entries: [3, 3, 0, 0, 0],
  } as const

  const booksOf = (report: ImportReport) =>
    Object.fromEntries(Object.keys(FIRST).map((kind) => [kind, numbers(report[kind as keyof typeof FIRST])]))

  test('the report shows under which URL the first account is found', async () => {
    const { stdout } = await run('--from', former.address, '--dry-run')
    assert.match(stdout, /^URL of the first account: \/acct\/[0-9a-f-]{36} \(at its client it must have this path\)$/m)
  })

  test('a dry run tells the same as the run, and writes nothing', async () => {
    const before = await rowCounts()
    const report = await imported('--dry-run')
    assert.deepEqual(booksOf(report), FIRST)
    assert.equal(report.revocations, 2)
    assert.deepEqual(await rowCounts(), before)
  })

  test('everything is here, and what is not is named with its reason', async () => {
    const report = await imported()
    assert.deepEqual(booksOf(report), FIRST)
    assert.equal(report.revocations, 2)
    const reasons = [report.certificates, report.identifiers, report.profiles, report.administrators].flatMap(
      (kind) => kind?.first_skipped.map(({ reason }) => reason) ?? [],
    )
    for (const wanted of [
      /issuer unknown/,
      /pem_chain holds no certificate/,
      /certificate of a CA/,
      /password hash/,
      /san_regex/,
      /search-indexes --history/,
    ])
      assert.ok(
        reasons.some((reason) => wanted.test(reason)),
        `${wanted} in ${reasons.join('; ')}`,
      )
  })

  test('accounts have their contacts, status, time, credential and what it grants', async () => {
    const rows = await sql(
      `SELECT p.path, a.status, a.contacts, a.created_at, e.kid, a.id::text AS id,
              ARRAY(SELECT n.identifier_value FROM account_allowed_identifiers g JOIN allowed_identifiers n ON n.id = g.identifier_id
                     WHERE g.account_id = a.id) AS names
         FROM accounts a JOIN account_paths p ON p.account_id = a.id LEFT JOIN eab_credentials e ON e.id = a.eab_credential_id`,
    )
    const of = (name: string) => rows.find(({ path }) => path === `/acct/${ids[name]}`)
    const alice = of('alice')
    assert.deepEqual(alice?.['contacts'], ['mailto:alice@example.com', 'mailto:ops@example.com'])
    assert.deepEqual([alice?.['kid'], alice?.['names']], ['team-a', ['*.alice.test']])
    assert.equal((alice?.['created_at'] as Date | undefined)?.toISOString(), '2024-05-06T07:08:09.000Z')
    // Lists are in the order of ids.
    assert.deepEqual(uuidTime(String(alice?.['id'])), alice?.['created_at'])
    const shown = JSON.parse(await operate(service, 'inspect', 'account', String(alice?.['id']), '--json'))
    assert.deepEqual(shown.former_paths, [`/acct/${ids['alice']}`])
    assert.deepEqual([of('bob')?.['contacts'], of('bob')?.['names']], [[], ['192.0.2.7']])
    assert.equal(of('dora')?.['status'], 'deactivated')
  })

  test('credentials bind further accounts, unless they were revoked', async () => {
    const shown = JSON.parse(await operate(service, 'eab', 'show', 'team-a', '--json'))
    assert.deepEqual([shown.label, shown.revoked, shown.uses], ['team-a', false, 1])
    const client = await createAcmeClient(service.directoryUrl)
    const bind = (kid: string) =>
      client.newAccount({ externalAccountBinding: bindingFor(client, { kid, hmacKey: HMAC_KEY }) })
    assert.match((await bind('team-gone')).text, /unauthorized/)
    assert.equal((await bind('team-a')).status, 201)
  })

  test('administrators sign in with their old password', async () => {
    assert.ok((await signIn(service.baseUrl, 'root.one', 'a password of old')).token)
  })

  test('listeners hear of who registers now, and not of what is years old', async () => {
    const [heard] = await sql<{ imported: number; registered: number }>(
      `SELECT count(*) FILTER (WHERE account_id IN (SELECT account_id FROM account_paths))::integer AS imported,
              count(*) FILTER (WHERE kind = 'account.registration')::integer AS registered
         FROM event_deliveries WHERE consumer = 'listener'`,
    )
    assert.deepEqual(heard, { imported: 0, registered: 1 })
  })

  test('the former audit log is behind ours, whole', async () => {
    const rows = await sql<{ details: { action: string; from: string } }>(
      "SELECT details FROM admin_audit_log WHERE action = 'import.audit_entry' ORDER BY sequence",
    )
    assert.deepEqual(rows.map(({ details }) => details.action).sort(), ['create_eab', 'login', 'login'])
    assert.equal(rows.at(-1)?.details.from, 'acmeeh')
    await operate(service, 'audit', 'verify')
  })

  test('revoked certificates are on the list, with a reason and a time that it can hold', async () => {
    await operate(service, 'crl', 'rebuild')
    const { entries } = readCrl((await send({ method: 'GET', url: `${service.baseUrl}/crl` })).body)
    const entryOf = (name: string) => entries.find(({ serial }) => serial === issued[name]?.serial)
    assert.equal(entryOf('stolen')?.reason, 1)
    assert.equal(entryOf('stolen')?.revokedAt.toISOString(), '2025-01-02T03:04:05.000Z')
    assert.equal(entryOf('odd')?.reason, undefined)
  })

  describe('its certificates', () => {
    let alice: AcmeClient
    before(async () => {
      alice = await clientOf('alice')
    })

    test('have renewal information, and are replaced by an order of their account', async () => {
      for (const name of ['www', 'counted']) {
        const { der } = issued[name] as FormerCertificate
        const info = await send({ method: 'GET', url: `${alice.directory['renewalInfo']}/${certIdOf(der)}` })
        assert.equal(info.status, 200, info.text)
        const renewed = await alice.obtain([`${name}.alice.test`], responder, { order: { replaces: certIdOf(der) } })
        assert.equal(renewed.order.json.replaces, certIdOf(der))
      }
    })

    test('are those of an account whose URL and list of orders stay', async () => {
      assert.equal((await alice.post(alice.kid)).status, 200)
      assert.equal((await alice.post(`${alice.kid}/orders`)).json.orders.length, 2)
    })

    test('are revoked by their account, once', async () => {
      const revoke = (name: string) =>
        alice.post(alice.directory['revokeCert'] as string, { certificate: base64url(issued[name]?.der ?? '') })
      assert.equal((await revoke('counted')).status, 200)
      assert.match((await revoke('counted')).text, /alreadyRevoked/)
      assert.equal((await revoke('www')).status, 200)
      await operate(service, 'crl', 'rebuild')
      const { entries } = readCrl((await send({ method: 'GET', url: `${service.baseUrl}/crl` })).body)
      assert.ok(entries.some(({ serial }) => serial === '05'))
    })
  })

  test('the lines of the manual do a dry run and a run', async () => {
    for (const block of ['dry-run', 'acmeeh']) {
      const address = { 'postgres://reader@db.example.org/acmeeh': former.address }
      const [, , ...words] = wordsOf('docs/operations/import.md', block, address)
      const { code, stdout, stderr } = await run(...words)
      assert.ok(code === 0 || code === 1, stderr)
      assert.match(stdout, /^accounts +\d+ /m)
    }
  })

  test('a second run changes nothing', async () => {
    const before = await rowCounts()
    const report = await imported()
    for (const [kind, [read, made, , , skipped]] of Object.entries(FIRST))
      assert.deepEqual(numbers(report[kind as keyof typeof FIRST]), [read, 0, 0, made, skipped], kind)
    assert.equal(report.revocations, 0)
    assert.deepEqual(await rowCounts(), before)
  })

  test('a later run brings what has changed there, and leaves what has changed here', async () => {
    const alice = await clientOf('alice')
    const kept = await alice.post(alice.kid, { contact: ['mailto:here@example.com'] })
    assert.equal(kept.status, 200, kept.text)
    const [erin, newKey] = [newAccountKey(), newAccountKey()]
    ids['erin'] = await former.addAccount(erin.jwk, { kid: 'team-a' })
    await former.query("UPDATE account_contacts SET contact_uri = 'mailto:there@example.com' WHERE account_id = $1", [
      ids['alice'],
    ])
    await former.query('UPDATE accounts SET jwk = $2, jwk_thumbprint = $3 WHERE id = $1', [
      ids['carol'],
      JSON.stringify(newKey.jwk),
      newKey.thumbprint,
    ])
    await former.query("UPDATE accounts SET status = 'revoked' WHERE id = $1", [ids['bob']])
    const added = await issueFormerly(service.ca, ['late.bob.test'])
    await former.addCertificate(ids['bob'] as string, added.pem)

    const report = await imported()
    assert.deepEqual(numbers(report.accounts), [5, 1, 2, 2, 0])
    assert.deepEqual(numbers(report.certificates), [8, 1, 0, 4, 3])
    assert.deepEqual((await alice.post(alice.kid)).json.contact, ['mailto:here@example.com'])
    const carol = await clientOf('carol', newKey)
    assert.equal((await carol.post(carol.kid)).status, 200)
    const granted = await sql(
      'SELECT FROM account_allowed_identifiers g JOIN account_paths p USING (account_id) WHERE p.path = $1',
      [`/acct/${ids['erin']}`],
    )
    assert.equal(granted.length, 1)
  })

  test('a password in the address and a database of another kind are refused', async () => {
    const shown = await run('--from', former.address.replace('@', ':secret@'))
    assert.equal(shown.code, 1)
    assert.match(shown.stderr, /PGPASSWORD/)
    assert.doesNotMatch(shown.stderr, /secret/)
    for (const more of ['password=secret', 'ssl=0', 'sslmode=verify-full&ssl=0']) {
      const refused = await run('--from', `${former.address}${former.address.includes('?') ? '&' : '?'}${more}`)
      assert.match(refused.stderr, /--from takes host, port, user, sslmode and sslrootcert/)
      assert.doesNotMatch(refused.stderr, /secret/)
    }
    const wrong = await run('--from', former.address.replace(/test_[0-9a-f]+/, service.database.connection.database))
    assert.match(wrong.stderr, /is it its database/)
    await former.query("DELETE FROM schema_migrations WHERE version = '010_account_eab_link'")
    assert.match((await run('--from', former.address)).stderr, /before 2\.1\.0/)
  })
})

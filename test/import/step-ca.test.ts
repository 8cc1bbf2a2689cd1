/**
 * `chancery import step-ca` with what a step-ca has really written: its clients go on at Chancery, under the same host and
 * port, with the files and the command line that they had.
 */

import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import type { ImportReport, KindReport } from '../../src/import/model.ts'
import { testCa } from '../support/ca.ts'
import { download, makeStepCa, type StepCa } from '../support/cas/step-ca.ts'
import { readCrl } from '../support/crl.ts'
import { addressOf, testDatabase } from '../support/database.ts'
import { each } from '../support/each.ts'
import { freePort } from '../support/free-port.ts'
import type { Daemon } from '../support/hosts/daemon.ts'
import { goProgram } from '../support/hosts/go-program.ts'
import { requireMounts } from '../support/hosts/own-hosts.ts'
import { chancery, operate } from '../support/operator.ts'
import { pageBlock, wordsOf } from '../support/page-blocks.ts'
import { requireAll, requireCommand, requireGoLibraries, requirePort } from '../support/requirements.ts'
import { withQuery } from '../support/revoked.ts'
import { mustRun } from '../support/run-command.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { words } from '../support/words.ts'

const PAGE = 'docs/operations/import.md'

const ADDRESS = '127.80.0.3'
const NAMES = ['web.step.test', 'old.step.test', 'bound.step.test', 'late.step.test'] as const
const [WEB, OLD, BOUND, LATE] = NAMES
const SUPERSEDED = 4
const NEEDS = requireAll(
  requireCommand('lego'),
  requireGoLibraries('github.com/smallstep/nosql', 'github.com/smallstep/certificates'),
  requireMounts(),
  await requirePort(80, ADDRESS),
)

describe('coming from step-ca', NEEDS, () => {
  const folder = temporaryFolder()
  let rootFile: string
  let stepCa: StepCa
  let former: Daemon | undefined
  let service: TestService
  let origin: string
  let used: { kid: string; hmacKey: string }
  let unused: { kid: string; hmacKey: string }
  const file = (name: string) => path.join(folder, name)
  const dump = () => file('step-ca.jsonl')

  /** A client with a folder of its own; `provisioner` names its directory at step-ca. */
  function lego(client: string, provisioner: string, ...args: string[]): Promise<string> {
    const common = ['--server', stepCa.directoryUrl(provisioner), '--http', '--http.port', `${ADDRESS}:80`]
    const account = ['--email', `${client}@step.test`, '--accept-tos', '--path', file(client)]
    return mustRun('lego', [...common, ...account, ...args], { env: { LEGO_CA_CERTIFICATES: rootFile } })
  }
  const bindingOf = ({ kid, hmacKey }: typeof used) => ['--eab', '--kid', kid, '--hmac', hmacKey]
  const leafOf = (client: string, name: string) =>
    new X509Certificate(readFileSync(path.join(file(client), 'certificates', `${name}.crt`)))
  /** Accounts of this release do not name their provisioner. */
  const named = ['--provisioner', 'acme', '--provisioner', 'strict']
  const importDump = async (...words: string[]): Promise<ImportReport> =>
    JSON.parse((await chancery(service, 'import', 'step-ca', '--dump', dump(), ...named, ...words, '--json')).stdout)
  const query = (text: string, values: unknown[] = []) =>
    withQuery(service.database.connection, (run) => run(text, values))
  const countOf = async (table: string) => Number((await query(`SELECT count(*) FROM ${table}`))[0]?.['count'])
  const books = ({ read, new: fresh, known, skipped }: Partial<KindReport> = {}) => ({ read, fresh, known, skipped })

  before(async () => {
    const ca = await testCa(file('ca'))
    rootFile = ca.root
    const port = await freePort()
    origin = `https://127.0.0.1:${port}`
    const hosts = Object.fromEntries(NAMES.map((name) => [name, ADDRESS]))
    const provisioners = ['acme', 'strict']
    stepCa = await makeStepCa({ folder, ca, port, provisioners, strict: ['strict'], hosts })
    used = await stepCa.addKey('web-team')
    unused = await stepCa.addKey('mail-team')
    former = await stepCa.start()
    await lego('web', 'acme', '--domains', WEB, 'run')
    await lego('web', 'acme', '--domains', OLD, 'run')
    await lego('web', 'acme', '--domains', OLD, 'revoke', '--keep', '--reason', String(SUPERSEDED))
    await lego('bound', 'strict', ...bindingOf(used), '--domains', BOUND, 'run')
    await former.stop()

    const dumper = await goProgram('deploy/import/step-ca-dump')
    const places = { '/etc/step-ca/db': stepCa.database, '/root/step-ca-copy': file('copy'), './step-ca-dump': dumper }
    const [lines] = pageBlock(PAGE, 'step-ca-dump', { ...places, 'step-ca.jsonl': dump() }).split(/^chancery /m)
    await mustRun('sh', ['-euc', lines as string])

    writeFileSync(file('eab-secret'), 'secret'.repeat(10))
    service = await startTestService({
      config: {
        server: {
          external_url: origin,
          port,
          tls: { cert_path: file('tls.pem'), key_path: file('tls.key'), self_issued_names: ['127.0.0.1'] },
        },
        acme: {
          eab_key_file: file('eab-secret'),
          directory_aliases: provisioners.map((name) => `/acme/${name}/directory`),
        },
        ca: { internal: { root_cert_path: ca.intermediate, root_key_path: ca.intermediateKey, chain_path: ca.root } },
        challenges: { http01: { port: 80 } },
        dns: { zones: [{ zone: 'test', addresses: [ADDRESS] }] },
        crl: { enabled: true, path: '/crl' },
      },
    })
  })
  after(async () => {
    await former?.stop()
    await service?.dispose()
  })

  test('a dry run says what would be taken over, and changes nothing', async () => {
    const report = await importDump('--dry-run')
    assert.deepEqual(books(report.accounts), { read: 2, fresh: 2, known: 0, skipped: 0 })
    assert.equal(report.revocations, 1)
    assert.match(
      report.first_account_urls?.join(' ') ?? '',
      /^\/acme\/acme\/account\/\w+ \/acme\/strict\/account\/\w+$/,
    )
    for (const table of ['accounts', 'account_paths', 'eab_credentials']) assert.equal(await countOf(table), 0, table)
  })

  test('the line of the manual does a dry run of a dump', async () => {
    const { code, stderr } = await chancery(service, ...wordsOf(PAGE, 'step-ca-dump', { 'step-ca.jsonl': dump() }))
    assert.ok(code === 0 || code === 1, stderr)
    assert.match(stderr, /This was a dry run/)
  })

  test('without the name of the provisioner it says what is missing', async () => {
    const { code, stderr } = await chancery(service, 'import', 'step-ca', '--dump', dump())
    assert.equal(code, 1)
    assert.match(stderr, /do not name their provisioner; say --provisioner NAME/)
    assert.equal(await countOf('eab_credentials'), 0)
  })

  test('the books are equal: accounts, certificates, revocations, and EAB keys that nobody has used', async () => {
    const before = await countOf('certificates')
    const report = await importDump()
    assert.deepEqual(books(report.accounts), { read: 2, fresh: 2, known: 0, skipped: 0 })
    assert.deepEqual(books(report.certificates), { read: 3, fresh: 3, known: 0, skipped: 0 })
    assert.deepEqual(books(report.credentials), { read: 2, fresh: 1, known: 0, skipped: 1 })
    assert.match(report.credentials?.first_skipped[0]?.reason ?? '', /an account has used it/)
    assert.equal(report.revocations, 1)
    assert.equal((await countOf('certificates')) - before, 3)
    assert.equal(await countOf('accounts'), 2)
    const owned = await query(
      'SELECT names, revocation_reason FROM certificates WHERE account_id IS NOT NULL ORDER BY names',
    )
    assert.deepEqual(
      owned.map(({ names, revocation_reason: reason }) => [names, reason]),
      [
        [[BOUND], null],
        [[OLD], SUPERSEDED],
        [[WEB], null],
      ],
    )
  })

  test('a second run finds everything known', async () => {
    const report = await importDump()
    assert.deepEqual(books(report.accounts), { read: 2, fresh: 0, known: 2, skipped: 0 })
    assert.deepEqual(books(report.certificates), { read: 3, fresh: 0, known: 3, skipped: 0 })
    assert.equal(report.revocations, 0)
  })

  test('its PostgreSQL has the same books', async () => {
    const former = await testDatabase()
    try {
      await withQuery(former.connection, async (run) => {
        for (const line of readFileSync(dump(), 'utf8').trimEnd().split('\n')) {
          const { table, key, value } = JSON.parse(line)
          if (table === undefined) continue
          await run(`CREATE TABLE IF NOT EXISTS ${table} (nkey bytea PRIMARY KEY, nvalue bytea)`)
          await run(`INSERT INTO ${table} VALUES (decode($1, 'base64'), decode($2, 'base64'))`, [key, value])
        }
      })
      const asTyped = wordsOf(PAGE, 'step-ca', {
        'postgres://reader@db.example.org/stepca': addressOf(former.connection),
      })
      const { stdout, stderr } = await chancery(service, ...asTyped, '--provisioner', 'strict', '--json')
      assert.notEqual(stdout, '', stderr)
      const report: ImportReport = JSON.parse(stdout)
      assert.deepEqual(books(report.accounts), { read: 2, fresh: 0, known: 2, skipped: 0 })
      assert.deepEqual(books(report.certificates), { read: 3, fresh: 0, known: 3, skipped: 0 })
      assert.deepEqual(books(report.credentials), { read: 2, fresh: 0, known: 1, skipped: 1 })
    } finally {
      await former.drop()
    }
  })

  test('what was revoked at step-ca is on the list here', async () => {
    await operate(service, 'crl', 'rebuild')
    const { entries } = readCrl(await download(`${origin}/crl`, rootFile))
    assert.deepEqual(each(entries, 'serial', 'reason'), [[leafOf('web', OLD).serialNumber.toLowerCase(), SUPERSEDED]])
  })

  test('a client of step-ca renews here with its account, its directory and its command line', async () => {
    const former = leafOf('web', WEB)
    await lego('web', 'acme', '--domains', WEB, 'renew', '--days', '4000', '--no-random-sleep')
    const renewed = leafOf('web', WEB)
    assert.notEqual(renewed.serialNumber, former.serialNumber)
    assert.equal(renewed.issuer, former.issuer)
    const accounts = await query('SELECT DISTINCT account_id FROM certificates WHERE names = $1', [[WEB]])
    assert.equal(accounts.length, 1)
    assert.equal(await countOf('accounts'), 2)
  })

  test('one whose account was bound to a key revokes what step-ca has issued, and gets another', async () => {
    const former = leafOf('bound', BOUND)
    await lego('bound', 'strict', '--domains', BOUND, 'revoke', '--keep', '--reason', String(SUPERSEDED))
    const [row] = await query(
      "SELECT revocation_reason FROM certificates WHERE encode(serial_number, 'hex') = $1 AND revoked_at IS NOT NULL",
      [former.serialNumber.toLowerCase()],
    )
    assert.equal(row?.['revocation_reason'], SUPERSEDED)
    const renewing = words`--domains ${BOUND} renew --days 4000 --no-random-sleep`
    await lego('bound', 'strict', ...bindingOf(used), ...renewing)
    assert.notEqual(leafOf('bound', BOUND).serialNumber, former.serialNumber)
  })

  test('a key that step-ca has given out and nobody has used registers an account here', async () => {
    await lego('late', 'strict', ...bindingOf(unused), '--domains', LATE, 'run')
    assert.equal(leafOf('late', LATE).subjectAltName, `DNS:${LATE}`)
    assert.equal(await countOf('accounts'), 3)
  })

  test('a dump that ends early is refused before anything is read from it', async () => {
    const lines = readFileSync(dump(), 'utf8').trimEnd().split('\n')
    writeFileSync(file('short.jsonl'), `${lines.slice(0, -2).join('\n')}\n`)
    const { code, stderr } = await chancery(service, 'import', 'step-ca', '--dump', file('short.jsonl'))
    assert.equal(code, 1)
    assert.match(stderr, /the dump is not whole/)
  })

  test('a garbled record is named, and stops no other', async () => {
    const lines = readFileSync(dump(), 'utf8').trimEnd().split('\n')
    const garbled = lines.map((line) => {
      const record = JSON.parse(line)
      return record.table === 'acme_certs' ? JSON.stringify({ ...record, value: 'AAAA' }) : line
    })
    writeFileSync(file('garbled.jsonl'), `${garbled.join('\n')}\n`)
    const words = ['import', 'step-ca', '--dump', file('garbled.jsonl'), ...named, '--json']
    const { code, stdout } = await chancery(service, ...words)
    const { certificates }: ImportReport = JSON.parse(stdout)
    assert.equal(code, 1)
    assert.deepEqual(books(certificates), { read: 6, fresh: 0, known: 3, skipped: 3 })
    assert.equal(certificates?.first_skipped[0]?.reason, 'it is no JSON object')
  })
})

/** `chancery ca test-sign` for every backend: what is checked, what is recorded and revoked, and what a failure says. */

import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { parse, stringify } from 'yaml'
import { makeAuthority, writeSignerFiles } from '../signer/authority.ts'
import { startDaemon } from '../signer/daemon.ts'
import { adminConfig } from '../support/admin.ts'
import { checkBooks } from '../support/books.ts'
import { runChancery } from '../support/commands.ts'
import { type ExternalCa, startExternalCa } from '../support/external-ca.ts'
import { startChallengeFolder } from '../support/http01-responder.ts'
import { COMMAND_CA, caModule, makeOpenSslCa, type OpenSslCa } from '../support/openssl-ca.ts'
import { chancery, operate } from '../support/operator.ts'
import { withQuery } from '../support/revoked.ts'
import { runCommand } from '../support/run-command.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { configOf, sharedService } from '../support/shared-service.ts'

const CLI = path.resolve(import.meta.dirname, '../../../dist/src/cli/main.js')

interface Recorded {
  account_id: string | null
  order_id: string | null
  names: string[]
  backend: string | null
  der: Buffer
  revoked_at: Date | null
  revocation_reason: number | null
}

const query = (service: TestService, text: string, values: unknown[] = []) =>
  withQuery(service.database.connection, (run) => run(text, values))
const recorded = async (service: TestService, backend: string | null) =>
  (await query(service, 'SELECT * FROM certificates WHERE backend IS NOT DISTINCT FROM $1 ORDER BY id', [
    backend,
  ])) as unknown as Recorded[]

/** The configuration of the service with other settings of its CA. */
function configure({ folder }: TestService, changes: object, name = 'config.yaml'): string {
  const file = path.join(folder, name)
  const config = configOf({ folder })
  writeFileSync(file, stringify({ ...config, ca: { ...config['ca'], ...changes } }), { mode: 0o600 })
  return file
}

/** Runs the command with another configuration beside that of the service. */
const testSign = (service: TestService, changes: object, ...words: string[]) =>
  runChancery(['-c', configure(service, changes, 'test-sign.yaml'), 'ca', 'test-sign', ...words])

let service: TestService
before(async () => {
  // Without a secret of the Admin API there is no audit log.
  service = await startTestService({ config: adminConfig() })
})
after(() => service.dispose())

describe('ca test-sign through the signer', () => {
  const books = () =>
    checkBooks({ connection: service.database.connection, folder: service.folder, held: [], boundMs: 30_000 })

  test('makes a certificate of one hour by the running service’s signer, recorded without account and revoked', async () => {
    const stdout = await operate(service, 'ca', 'test-sign')
    const lines = stdout.trimEnd().split('\n')
    for (const [index, expected] of [
      /^internal: issuer default: \S+ signature made and verified in \d+\.\d ms$/,
      /^internal: issuer default: valid until \d{4}-\S+, 1 certificate\(s\) in its chain$|, 2 certificate\(s\) in its chain$/,
      /^internal: signer: that of the running service, \S+signer\.sock$/,
      /^internal: CSR: a P-256 key passes the checks of profile default$/,
      /^internal: certificate: built for test-sign\.invalid and one hour, and linted$/,
      /^internal: signed by issuer default, verified and recorded without an account$/,
      /^internal: revoked: [0-9a-f]+$/,
    ].entries())
      assert.match(lines[index] ?? '', expected)
    const [row, ...others] = await recorded(service, null)
    assert.deepEqual(others, [])
    assert.ok(row)
    assert.deepEqual([row.account_id, row.order_id, row.names], [null, null, ['test-sign.invalid']])
    assert.deepEqual([row.revoked_at !== null, row.revocation_reason], [true, 5])
    const leaf = new X509Certificate(row.der)
    assert.equal(Date.parse(leaf.validTo) - Date.parse(leaf.validFrom), 3_599_000)
    const serial = leaf.serialNumber.toLowerCase()
    assert.match(lines.at(-1) ?? '', new RegExp(`${serial.replace(/^0/, '')}$`))
    const [entry] = await query(service, "SELECT * FROM admin_audit_log WHERE action = 'certificate.revoke'")
    assert.match(JSON.stringify(entry), new RegExp(serial.replace(/^0/, '')))
  })

  test('audit chain and database agree', async () => {
    assert.equal((await books()).signatures, 1)
  })

  test('with --json says the same to a program', async () => {
    const { backends } = JSON.parse(await operate(service, 'ca', 'test-sign', '--json'))
    const [{ backend, profile, result, checks, issuers, certificate }] = backends
    assert.deepEqual([backend, profile, result, backends.length], ['internal', 'default', 'passed', 1])
    assert.equal(checks.length, 7)
    assert.equal(issuers[0].issuer, 'default')
    assert.match(certificate.serial_number, /^[0-9a-f]{32,34}$/)
    assert.equal(certificate.revoked, true)
  })

  test('while signing is stopped, no certificate is signed', async () => {
    await operate(service, 'signing', 'stop')
    const { code, stderr } = await chancery(service, 'ca', 'test-sign')
    await operate(service, 'signing', 'resume')
    assert.equal(code, 1)
    assert.match(stderr, /^chancery: signing is stopped, so no certificate was asked for; chancery signing resume/m)
    assert.equal((await books()).signatures, 2)
  })

  test('a profile whose key types cannot pass is an error before the signature', async () => {
    const profiles = { default: { key_types: ['P-256'] } }
    const { code, stderr } = await runWithSecurity(profiles)
    assert.equal(code, 1)
    assert.match(stderr, /^chancery: .*(?:curve|P-256)/m)
    assert.equal((await books()).signatures, 2)
  })
  const runWithSecurity = (profiles: object) => {
    const file = path.join(service.folder, 'security.yaml')
    const config = parse(readFileSync(path.join(service.folder, 'config.yaml'), 'utf8'))
    const security = { ...config.security, min_csr_ec_key_size: 384 }
    writeFileSync(file, stringify({ ...config, security, ca: { ...config.ca, profiles } }), { mode: 0o600 })
    return runChancery(['-c', file, 'ca', 'test-sign'])
  }

  test('an unknown profile or backend is wrong usage', async () => {
    for (const [words, said] of [
      [['--profile', 'none'], /there is no profile none; there are default/],
      [['--backend', 'external'], /external is no backend in use; there are internal/],
    ] as const) {
      const { code, stderr } = await chancery(service, 'ca', 'test-sign', ...words)
      assert.equal(code, 2)
      assert.match(stderr, said)
    }
  })

  test('beside no service, it starts a signer on the same audit chain', async () => {
    await service.stop()
    const stdout = await operate(service, 'ca', 'test-sign')
    assert.match(stdout, /^internal: signer: started for this command$/m)
    assert.equal((await books()).signatures, 3)
  })

  test('three at a time take turns: each has a signer of its own, and the audit chain is one', async () => {
    // Processes of their own: the commands of the other tests run one after the other.
    const words = [CLI, '-c', path.join(service.folder, 'config.yaml'), 'ca', 'test-sign']
    const ended = await Promise.all([1, 2, 3].map(() => runCommand(process.execPath, words)))
    for (const { code, output } of ended) {
      assert.equal(code, 0, output)
      assert.match(output, /^internal: signer: started for this command$/m)
    }
    assert.equal((await books()).signatures, 6)
  })

  test('where the signer’s policy forbids the name, the test ends before the signature', async () => {
    const files = writeSignerFiles({ default: makeAuthority() }, '', '{ permitted: { dns: [corp.example] } }')
    const daemon = await startDaemon(files.config)
    try {
      const signer = { socket: files.socket, secret_file: path.join(files.folder, 'secret') }
      const { code, stdout, stderr } = await testSign(service, { signer, internal: {} })
      assert.equal(code, 0, stderr)
      assert.match(
        stdout,
        /^internal: the test ends before the signature, by the signer's policy: test-sign\.invalid is outside the permitted subtrees$/m,
      )
      assert.deepEqual(await query(service, 'SELECT FROM issuance_intents'), [])
      assert.equal((await recorded(service, null)).length, 6)
    } finally {
      await daemon.stop()
    }
  })
})

describe('ca test-sign of other backends', () => {
  let ca: ExternalCa
  let openSsl: OpenSslCa
  let upstream: TestService
  let closeWebServer: () => Promise<void>
  const NAMES = ['internal', 'external', COMMAND_CA, 'acme_proxy']

  before(async () => {
    ca = await startExternalCa()
    openSsl = makeOpenSslCa()
    upstream = await sharedService('admin')
    const webroot = path.join(upstream.folder, 'webroot')
    const challenges = path.join(webroot, '.well-known', 'acme-challenge')
    mkdirSync(challenges, { recursive: true })
    closeWebServer = await startChallengeFolder(upstream.http01Port, challenges)
    // Stopped: its loops would confirm revocations of the tests.
    await service.stop()
    configure(service, {
      backend: 'failover',
      failover: { backends: NAMES, probe_seconds: 60 },
      deferred_signing_timeout: 60,
      profiles: { other: { backend: 'external', key_types: ['P-384'], extended_key_usages: ['server_auth'] } },
      external: {
        sign_url: `${ca.url}/sign`,
        revoke_url: `${ca.url}/revoke`,
        trust_anchors: [ca.rootFile],
      },
      extension_settings: openSsl.settings,
      acme_proxy: {
        directory_url: upstream.directoryUrl,
        email: 'pki@upstream.test',
        challenge_type: 'http-01',
        challenge_handler: 'file_http',
        challenge_handler_config: { webroot },
        trust_anchors: [upstream.ca.root],
        storage_path: path.join(upstream.folder, 'storage'),
      },
    })
  })
  after(async () => {
    await closeWebServer?.()
    await ca?.close()
    openSsl?.remove()
  })

  const waiting = () => query(service, 'SELECT * FROM backend_revocations')

  test('without --issue each member is asked for what costs nothing, and says so', async () => {
    const stdout = await operate(service, 'ca', 'test-sign')
    for (const name of NAMES.slice(1))
      for (const check of [
        'its settings and files can be used',
        'trust_anchors: 1 root(s)',
        'it answers',
        'CSR: a P-256 key passes the checks of profile default',
        'no certificate was asked for; --issue does that, and revokes it',
      ])
        assert.ok(stdout.includes(`${name}: ${check}\n`), `${name}: ${check}\n${stdout}`)
    assert.match(stdout, /^internal: revoked: /m)
    assert.deepEqual([ca.requests, openSsl.issued()], [[], []])
  })

  test('with --issue each member issues; what came is recorded without account, and revoked here and there', async () => {
    const stdout = await operate(service, 'ca', 'test-sign', '--issue', '--name', 'Proof.test')
    for (const name of NAMES.slice(1)) {
      for (const check of [
        'issued, and key, names, validity and chain are as they should be',
        'the CA has confirmed the revocation',
      ])
        assert.ok(stdout.includes(`${name}: ${check}\n`), `${name}: ${check}\n${stdout}`)
      const [row, ...others] = await recorded(service, name)
      assert.deepEqual(others, [])
      assert.ok(row)
      assert.deepEqual([row.account_id, row.order_id, row.names], [null, null, ['proof.test']])
      assert.deepEqual([row.revoked_at !== null, row.revocation_reason], [true, 5])
      assert.ok(stdout.includes(`${name}: recorded without an account, and revoked here: `))
    }
    assert.deepEqual(await waiting(), [])
    assert.equal(ca.revoked.length, 1)
    assert.deepEqual(Object.values(openSsl.revoked()), ['5'])
    const rows = await query(upstream, 'SELECT revoked_at FROM certificates')
    assert.deepEqual(
      rows.map(({ revoked_at }) => revoked_at !== null),
      [true],
    )
    assert.equal(ca.requests[0]?.body.validity_days, 1)
  })

  test('--profile chooses backend and key, --backend one of several', async () => {
    ca.behave('issue')
    const stdout = await operate(service, 'ca', 'test-sign', '--issue', '--profile', 'other')
    assert.match(stdout, /^external: CSR: a P-384 key passes the checks of profile other$/m)
    assert.doesNotMatch(stdout, /^internal/m)
    assert.equal(ca.requests.findLast(({ path: place }) => place === '/sign')?.body.profile, 'other')
  })

  test('an ACME service needs a name that can be proved', async () => {
    const { code, stderr } = await chancery(service, 'ca', 'test-sign', '--issue', '--backend', 'acme_proxy')
    assert.equal(code, 2)
    assert.match(stderr, /give --name/)
  })

  const external = (...words: string[]) =>
    chancery(service, 'ca', 'test-sign', '--backend', 'external', '--issue', ...words)

  test('a CA that is away for a moment is asked again', async () => {
    ca.behave('unavailable', 'issue')
    const { code, stderr } = await external()
    assert.equal(code, 0, stderr)
    assert.match(stderr, /external: external answered 503.*; tried again/)
  })

  test('a certificate that comes later is waited for', async () => {
    ca.behave('pending')
    ca.deliver(true)
    const { code, stderr } = await external()
    assert.equal(code, 0, stderr)
  })

  for (const [behaviour, said] of [
    ['refuse', /^chancery: refused: external refused: 422/m],
    [
      'wrong key',
      /^chancery: what it has issued is not what was asked for: its key is not that of the CSR; it was revoked there$/m,
    ],
    [
      'lost answer',
      /^chancery: no answer of external: .*; a certificate may exist there, look for request [0-9a-f-]{36}$/m,
    ],
  ] as const)
    test(`${behaviour}: the test fails and says what to look at`, async () => {
      ca.behave(behaviour)
      const before = (await recorded(service, 'external')).length
      const { code, stderr } = await external()
      assert.equal(code, 1)
      assert.match(stderr, said)
      assert.equal((await recorded(service, 'external')).length, before)
    })

  test('a revocation that the CA does not confirm stays for the service', async () => {
    ca.behave('issue')
    ca.failRevocations(1_000)
    const { code, stderr } = await external()
    ca.failRevocations(0)
    assert.equal(code, 1)
    assert.match(stderr, /^chancery: the CA has not confirmed the revocation: .*; a running service asks again$/m)
    assert.equal((await waiting()).length, 1)
  })

  test('of several backends the others are tested all the same', async () => {
    const away = { sign_url: 'http://127.0.0.1:9/sign', trust_anchors: [ca.rootFile] }
    const { code, stdout, stderr } = await testSign(service, { external: away })
    assert.equal(code, 1)
    assert.match(stderr, /^chancery: external: external is not reachable: .*ECONNREFUSED/m)
    assert.match(stdout, /^external: its settings and files can be used$/m)
    assert.match(stdout, /^acme_proxy: it answers$/m)
  })

  test('a module that cannot be used, and a CA that is not told of revocations', async () => {
    const [broken, silent] = [caModule('Empty'), caModule('Signs')]
    const first = await testSign(service, { backend: broken, failover: {}, profiles: {}, extension_settings: {} })
    assert.equal(first.code, 1)
    assert.match(first.stderr, /^chancery: ca\.backend: \S+#Empty needs the method issue, or issuer and sign/m)
    const extension_settings = { chain: openSsl.certificate, key: openSsl.key, trust_anchors: [openSsl.certificate] }
    const changes = { backend: silent, failover: {}, profiles: {}, extension_settings }
    const { code, stdout, stderr } = await testSign(service, changes, '--issue')
    assert.equal(code, 0, stderr)
    assert.ok(stdout.includes(`${silent}: the CA is not told of revocations\n`), stdout)
  })
})

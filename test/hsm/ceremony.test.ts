/** Key ceremonies on the command line, in tokens and in files, up to a daemon that signs with what they made. */

import assert from 'node:assert/strict'
import { execFile, execFileSync } from 'node:child_process'
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, describe, test } from 'node:test'
import { promisify } from 'node:util'
import { parseCsr, verifyCsrSignature } from '../../src/pki/csr.ts'
import { decodePem } from '../../src/pki/pem.ts'
import { SIGNER_PROGRAM } from '../signer/daemon.ts'
import { requireAll, requireCommand, requirePackage } from '../support/requirements.ts'
import { SOFTHSM_LIBRARY } from '../support/softhsm.ts'

const NEEDS = requireAll(requireCommand('softhsm2-util'), requirePackage('graphene-pk11'))

const run = promisify(execFile)
const folder = mkdtempSync(path.join(tmpdir(), 'ceremony-'))
after(() => rmSync(folder, { recursive: true, force: true }))
const at = (...names: string[]) => path.join(folder, ...names)
const env = { ...process.env, SOFTHSM2_CONF: at('softhsm', 'softhsm2.conf'), TEST_PASSPHRASE: 'correct horse' }

async function signer(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  try {
    return { code: 0, ...(await run(process.execPath, [SIGNER_PROGRAM, ...args], { env, timeout: 60_000 })) }
  } catch (error) {
    return error as { code: number; stdout: string; stderr: string }
  }
}

async function succeed(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await signer(...args)
  assert.equal(code, 0, stderr)
  return stdout
}

async function fail(reason: RegExp, ...args: string[]): Promise<void> {
  const { code, stderr } = await signer(...args)
  assert.equal(code, 1)
  assert.match(stderr, reason)
}

/** @param issuerYaml what `keygen` printed for the configuration */
async function assertSigns(issuerYaml: string): Promise<void> {
  const config = `socket: ${at('signer.sock')}\nsecret_file: ${at('secret')}\naudit: { file: ${at('audit.jsonl')} }\nissuers:\n  - id: made\n${issuerYaml}\n`
  writeFileSync(at('secret'), 's'.repeat(32), { mode: 0o600 })
  writeFileSync(at('signer.yaml'), config)
  assert.match(await succeed('--validate-only', '-c', at('signer.yaml')), /issuer made: /)
}

/** The lines that are meant for the configuration. */
function configurationIn(stdout: string): string {
  const [, after = ''] = stdout.split('For the configuration of chancery-signer:\n')
  return after
    .split('\n')
    .filter((line) => line.startsWith('    '))
    .join('\n')
}

describe('a ceremony with a token', NEEDS, () => {
  const inToken = (label: string, ...more: string[]) => [
    ...['keygen', '--library', SOFTHSM_LIBRARY, '--token', 'dev', '--pin-file', at('softhsm', 'pin')],
    ...['--label', label, ...(more.includes('--out') ? [] : ['--out', at(label)]), ...more],
  ]

  test('begins with a development token that is made once, closed to others', async () => {
    const stdout = await succeed('init-softhsm', at('softhsm'), '--label', 'dev')
    assert.match(stdout, /export SOFTHSM2_CONF=.*softhsm2\.conf/)
    for (const name of ['pin', 'so-pin']) {
      assert.equal(statSync(at('softhsm', name)).mode & 0o777, 0o600)
      assert.ok(!stdout.includes(readFileSync(at('softhsm', name), 'utf8').trim()), 'no PIN is shown')
    }
    await fail(/exists already/, 'init-softhsm', at('softhsm'))
  })

  for (const [type, hash, openssl] of [
    ['P-256', 'sha256', /NIST CURVE: P-256/],
    ['P-384', 'sha384', /NIST CURVE: P-384/],
    ['P-521', 'sha512', /NIST CURVE: P-521/],
    ['RSA-2048', 'sha256', /Public-Key: \(2048 bit\)/],
  ] as const) {
    test(`makes a self-signed root of ${type} that the signer signs with`, async () => {
      const stdout = await succeed(
        ...inToken(type, '--type', type, '--hash', hash, '--subject', 'CN=Root,O=A\\, B,C=DE', '--root-days', '30'),
      )
      const file = at(type, 'root.pem')
      const text = execFileSync('openssl', ['x509', '-in', file, '-noout', '-text']).toString()
      assert.match(text, openssl)
      assert.match(text, /Subject: C = DE, O = "A, B", CN = Root|Subject: C=DE, O="A, B", CN=Root/)
      execFileSync('openssl', ['verify', '-x509_strict', '-CAfile', file, file], { stdio: 'pipe' })
      const certificate = new X509Certificate(readFileSync(file))
      assert.ok(certificate.ca && certificate.verify(certificate.publicKey))

      const log = readFileSync(at(type, 'ceremony.log'), 'utf8')
      assert.ok(log.includes(certificate.fingerprint256.replaceAll(':', '').toLowerCase()))
      assert.match(log, /sensitive yes, extractable no/)
      assert.ok(!log.includes(readFileSync(at('softhsm', 'pin'), 'utf8').trim()))
      await assertSigns(`${configurationIn(stdout)}\n        pin_file: ${at('softhsm', 'pin')}`)
    })
  }

  test('makes a request that asks for a CA certificate', async () => {
    await succeed(...inToken('sub', '--subject', 'CN=Issuing', '--path-length', '0'))
    const [block] = decodePem(readFileSync(at('sub', 'request.csr'), 'utf8'))
    const csr = parseCsr(block!.der)
    assert.ok(verifyCsrSignature(csr))
    assert.deepEqual(csr.keyUsages, ['key_cert_sign', 'crl_sign'])
    const text = execFileSync('openssl', [
      'req',
      '-in',
      at('sub', 'request.csr'),
      '-noout',
      '-text',
      '-verify',
    ]).toString()
    assert.match(text, /CA:TRUE, pathlen:0/)
  })

  test('makes no second key of the same label or id, and writes the failure down', async () => {
    await succeed(...inToken('first', '--subject', 'CN=X', '--id', 'aa01'))
    await fail(
      /has a private key first \(id aa01\) already/,
      ...inToken('first', '--subject', 'CN=X', '--out', at('again')),
    )
    await fail(/id aa01\) already/, ...inToken('second', '--subject', 'CN=X', '--id', 'aa01'))
    assert.match(
      readFileSync(at('again', 'ceremony.log'), 'utf8'),
      /ends with an error: the token has a private key first/,
    )
    await fail(/request\.csr: exists already/, ...inToken('first', '--subject', 'CN=X'))
  })

  test('ends with a code of its own when the PIN is wrong', async () => {
    writeFileSync(at('wrong'), '000000', { mode: 0o600 })
    const { code, stderr } = await signer(
      'keygen',
      '--library',
      SOFTHSM_LIBRARY,
      '--token',
      'dev',
      '--pin-file',
      at('wrong'),
      '--label',
      'x',
      '--subject',
      'CN=X',
      '--out',
      at('x'),
    )
    assert.equal(code, 3)
    assert.match(stderr, /CKR_PIN_INCORRECT/)
  })
})

describe('a ceremony with files', requireCommand('openssl'), () => {
  const inFile = (name: string, ...more: string[]) => ['keygen', '--out', at(name), '--subject', 'CN=File CA', ...more]

  for (const type of ['P-256', 'P-384', 'P-521', 'RSA-2048', 'Ed25519']) {
    test(`makes a root of ${type} that the signer signs with`, async () => {
      const name = `file-${type}`
      const stdout = await succeed(...inFile(name, '--type', type, '--root-days', '30', '--path-length', '1'))
      assert.equal(statSync(at(name, 'key.pem')).mode & 0o777, 0o600)
      execFileSync('openssl', ['verify', '-x509_strict', '-CAfile', at(name, 'root.pem'), at(name, 'root.pem')], {
        stdio: 'pipe',
      })
      await assertSigns(configurationIn(stdout))
    })
  }

  test('encrypts the key when there is a passphrase', async () => {
    const stdout = await succeed(...inFile('encrypted', '--root-days', '30', '--passphrase-env', 'TEST_PASSPHRASE'))
    const pem = readFileSync(at('encrypted', 'key.pem'), 'utf8')
    assert.match(pem, /BEGIN ENCRYPTED PRIVATE KEY/)
    assert.ok(createPrivateKey({ key: pem, passphrase: env.TEST_PASSPHRASE }))
    await assertSigns(`${configurationIn(stdout)}\n      passphrase_env: TEST_PASSPHRASE`)
    assert.doesNotMatch(stdout, /correct horse/)
  })

  test('never writes over a key', async () => {
    await succeed(...inFile('once'))
    const before = readFileSync(at('once', 'key.pem'))
    await fail(/exists already/, ...inFile('once'))
    await fail(/key\.pem: exists already/, ...inFile('once', '--root-days', '30'))
    assert.deepEqual(readFileSync(at('once', 'key.pem')), before)
    assert.deepEqual(readdirSync(at('once')).sort(), ['ceremony.log', 'key.pem', 'request.csr'])
  })

  const WRONG: [RegExp, ...string[]][] = [
    [/--type is one of/, '--type', 'RSA-1024'],
    [/--root-days is a whole number/, '--root-days', 'many'],
    [/--path-length is a whole number from 0 to 127/, '--path-length', '-1'],
    [/--path-length is a whole number/, '--path-length'],
    [/--hash is sha256/, '--hash', 'md5'],
    [/--token is for a key in a token/, '--token', 'ca'],
    [/set only one of --passphrase-file, --passphrase-env/, '--passphrase-file', 'a', '--passphrase-env', 'B'],
    [/say which token/, '--library', 'x.so', '--label', 'a'],
    [/give the key a label/, '--library', 'x.so', '--token', 'a'],
    [/--passphrase-env is for a key in a file/, '--library', 'x.so', '--passphrase-env', 'B'],
    [/hexadecimal bytes/, '--library', 'x.so', '--token', 'a', '--label', 'b', '--id', 'x1'],
    [/is no attribute of a name/, '--subject', 'Example'],
    [/--out is given twice/, '--out', 'b'],
    [/country code/, '--subject', 'CN=X,C=Germany'],
  ]
  for (const [reason, ...options] of WRONG) {
    test(`is not begun with ${options.join(' ')}`, () =>
      fail(
        reason,
        ...[
          'keygen',
          '--out',
          at('never'),
          ...(options.includes('--subject') ? [] : ['--subject', 'CN=X']),
          ...options,
        ],
      ))
  }
})

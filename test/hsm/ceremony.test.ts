/** Key ceremonies on the command line, in tokens and in files, up to a daemon that signs with what they made. */

import assert from 'node:assert/strict'
import { execFile, execFileSync } from 'node:child_process'
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, test } from 'node:test'
import { promisify } from 'node:util'
import { parseCsr, verifyCsrSignature } from '../../src/shared/pki/csr.ts'
import { decodePem, encodePem } from '../../src/shared/pki/pem.ts'
import { STRING, set } from '../corpus/der.ts'
import { cn, nameOf, organization } from '../corpus/requests.ts'
import { SIGNER_PROGRAM } from '../signer/daemon.ts'
import { SOFTHSM_LIBRARY } from '../support/hosts/softhsm.ts'
import { requireAll, requireCommand, requirePackage } from '../support/requirements.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { words } from '../support/words.ts'

const NEEDS = requireAll(requireCommand('softhsm2-util'), requirePackage('graphene-pk11'))

const run = promisify(execFile)
const folder = temporaryFolder()
const at = (...names: string[]) => path.join(folder, ...names)
const env = { ...process.env, SOFTHSM2_CONF: at('softhsm', 'softhsm2.conf'), TEST_PASSPHRASE: 'correct horse' }

const openssl = (...args: string[]) => execFileSync('openssl', args, { stdio: 'pipe' }).toString()
const verifyStrictly = (root: string, file = root) => openssl(...words`verify -x509_strict -CAfile ${root} ${file}`)
const fingerprintOf = (file: string) =>
  new X509Certificate(readFileSync(file)).fingerprint256.replaceAll(':', '').toLowerCase()

async function signer(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  try {
    return { code: 0, ...(await run(process.execPath, [SIGNER_PROGRAM, ...args], { env })) }
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
  const token = (label: string) => words`--library ${SOFTHSM_LIBRARY} --token dev --label ${label}`
  const pin = (file = at('softhsm', 'pin')) => ['--pin-file', file]
  const inToken = (label: string, ...more: string[]) => [
    ...words`keygen ${token(label)} ${pin()}`,
    ...(more.includes('--out') ? [] : ['--out', at(label)]),
    ...more,
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

  for (const [type, hash, curve] of [
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
      const text = openssl(...words`x509 -in ${file} -noout -text`)
      assert.match(text, curve)
      assert.match(text, /Subject: C = DE, O = "A, B", CN = Root|Subject: C=DE, O="A, B", CN=Root/)
      verifyStrictly(file)
      const certificate = new X509Certificate(readFileSync(file))
      assert.ok(certificate.ca && certificate.verify(certificate.publicKey))

      const log = readFileSync(at(type, 'ceremony.log'), 'utf8')
      assert.ok(log.includes(fingerprintOf(file)))
      assert.match(log, /sensitive yes, extractable no/)
      assert.ok(!log.includes(readFileSync(at('softhsm', 'pin'), 'utf8').trim()))
      await assertSigns(configurationIn(stdout))
    })
  }

  test('makes a request that asks for a CA certificate', async () => {
    await succeed(...inToken('sub', '--subject', 'CN=Issuing', '--path-length', '0'))
    const [block] = decodePem(readFileSync(at('sub', 'request.csr'), 'utf8'))
    const csr = parseCsr(block!.der)
    assert.ok(verifyCsrSignature(csr))
    assert.deepEqual(csr.keyUsages, ['key_cert_sign', 'crl_sign'])
    assert.match(openssl(...words`req -in ${at('sub', 'request.csr')} -noout -text -verify`), /CA:TRUE, pathlen:0/)
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

  test('has a root in the token sign a request', async () => {
    await succeed(...inToken('top', '--subject', 'CN=Top', '--root-days', '30', '--path-length', '1'))
    await succeed(...inToken('below', '--subject', 'CN=Below'))
    await assertIssuerWorks('below', 'below', 'top', ...token('top'), ...pin())
    await fail(
      /not the key of the issuer certificate/,
      ...words`sign-request ${at('below', 'request.csr')} --root ${at('top', 'root.pem')} --days 20`,
      ...words`--out ${at('below', 'other.pem')} ${token('below')} ${pin()}`,
    )
  })

  test('ends with a code of its own when the PIN is wrong', async () => {
    writeFileSync(at('wrong'), '000000', { mode: 0o600 })
    const { code, stderr } = await signer(
      ...words`keygen ${token('x')} ${pin(at('wrong'))} --subject CN=X --out ${at('x')}`,
    )
    assert.equal(code, 3)
    assert.match(stderr, /CKR_PIN_INCORRECT/)
  })
})

/** Under a root that was made before, with the request of an issuing CA. */
async function assertIssuerWorks(name: string, request: string, root: string, ...key: string[]): Promise<string> {
  const issuer = at(name, 'issuer.pem')
  const stdout = await succeed(
    ...words`sign-request ${at(request, 'request.csr')} --root ${at(root, 'root.pem')} --days 20 --out ${issuer} ${key}`,
  )
  verifyStrictly(at(root, 'root.pem'), issuer)
  const text = openssl(...words`x509 -in ${issuer} -noout -text`)
  assert.match(text, /X509v3 Basic Constraints: critical\s+CA:TRUE, pathlen:0/)
  assert.match(text, /X509v3 Key Usage: critical\s+Certificate Sign, CRL Sign/)
  assert.match(text, /X509v3 Subject Key Identifier/)
  const fingerprint = fingerprintOf(issuer)
  assert.ok(readFileSync(at(name, 'ceremony.log'), 'utf8').includes(fingerprint))
  assert.ok(stdout.includes(fingerprint))
  return issuer
}

describe('a ceremony with files', requireCommand('openssl'), () => {
  const inFile = (name: string, ...more: string[]) => ['keygen', '--out', at(name), '--subject', 'CN=File CA', ...more]

  for (const type of ['P-256', 'P-384', 'P-521', 'RSA-2048', 'Ed25519']) {
    test(`makes a root of ${type} that the signer signs with`, async () => {
      const name = `file-${type}`
      const stdout = await succeed(...inFile(name, '--type', type, '--root-days', '30', '--path-length', '1'))
      assert.equal(statSync(at(name, 'key.pem')).mode & 0o777, 0o600)
      verifyStrictly(at(name, 'root.pem'))
      await assertSigns(configurationIn(stdout))
    })
  }

  test('encrypts the key when there is a passphrase', async () => {
    const stdout = await succeed(...inFile('encrypted', '--root-days', '30', '--passphrase-env', 'TEST_PASSPHRASE'))
    const pem = readFileSync(at('encrypted', 'key.pem'), 'utf8')
    assert.match(pem, /BEGIN ENCRYPTED PRIVATE KEY/)
    assert.ok(createPrivateKey({ key: pem, passphrase: env.TEST_PASSPHRASE }))
    await assertSigns(configurationIn(stdout))
    assert.doesNotMatch(stdout, /correct horse/)
  })

  test('encrypts so that OpenSSL reads the key, with 600,000 iterations, and says where the passphrase is', async () => {
    writeFileSync(at('passphrase'), 'correct horse\n', { mode: 0o600 })
    const stdout = await succeed(...inFile('for-openssl', '--root-days', '30', '--passphrase-file', at('passphrase')))
    const file = at('for-openssl', 'key.pem')
    assert.equal(
      openssl('pkey', '-in', file, '-passin', `file:${at('passphrase')}`, '-pubout'),
      openssl('x509', '-in', at('for-openssl', 'root.pem'), '-noout', '-pubkey'),
    )
    const structure = openssl('asn1parse', '-in', file)
    for (const part of [/:PBES2/, /:PBKDF2/, /INTEGER +:0927C0/, /:hmacWithSHA256/, /:aes-256-cbc/]) {
      assert.match(structure, part)
    }
    assert.ok(configurationIn(stdout).includes(`      passphrase_file: ${at('passphrase')}`))
    await assertSigns(configurationIn(stdout))
  })

  test('has a root in a file sign a request, for an issuer that the signer signs with', async () => {
    const passphrase = ['--passphrase-env', 'TEST_PASSPHRASE']
    await succeed('keygen', '--out', at('above'), '--subject', 'CN=Above', '--root-days', '30', ...passphrase)
    await succeed(...inFile('under'))
    const key = ['--key', at('above', 'key.pem'), ...passphrase]
    const issuer = await assertIssuerWorks('under', 'under', 'above', ...key)
    const yaml = `    certificate: ${issuer}\n    chain: ${at('above', 'root.pem')}\n    key: { file: ${at('under', 'key.pem')} }`
    await assertSigns(yaml)

    const sign = (...more: string[]) => ['sign-request', at('under', 'request.csr'), ...more]
    const root = ['--root', at('above', 'root.pem')]
    const days = ['--days', '20']
    const out = ['--out', at('under', 'second.pem')]
    for (const [reason, ...args] of [
      [/issuer\.pem: exists already/, ...sign(...root, ...days, ...key, '--out', issuer)],
      [/--days goes beyond .*root\.pem, which ends/, ...sign(...root, '--days', '31', ...key, ...out)],
      [/say how long the certificate is valid/, ...sign(...root, ...key, ...out)],
      [/give the certificate of the root/, ...sign(...days, ...key, ...out)],
      [/say where the key of the root is/, ...sign(...root, ...days, ...out)],
      [/the key is not that of/, ...sign(...root, ...days, '--key', at('under', 'key.pem'), ...out)],
      [
        /the request has the name of the root/,
        ...sign('--root', issuer, ...days, '--key', at('under', 'key.pem'), ...out),
      ],
      [/is not one request in PEM/, 'sign-request', at('under', 'key.pem'), ...root, ...days, ...key, ...out],
    ] as [RegExp, ...string[]][]) {
      await fail(reason, ...args)
    }
    assert.ok(!readdirSync(at('under')).includes('second.pem'))
  })

  test('signs no request that its root has no room for', async () => {
    await succeed(...inFile('leaf-root', '--root-days', '30', '--path-length', '0'))
    await succeed('keygen', '--out', at('too-deep'), '--subject', 'CN=Too deep')
    await fail(
      /--path-length must be below that of .*, which is 0/,
      ...words`sign-request ${at('too-deep', 'request.csr')} --root ${at('leaf-root', 'root.pem')} --days 9`,
      ...words`--key ${at('leaf-root', 'key.pem')} --out ${at('too-deep', 'issuer.pem')}`,
    )
  })

  const above = ['--root', at('above', 'root.pem'), '--key', at('above', 'key.pem')]
  test('a request that was changed is not signed', async () => {
    const file = at('too-deep', 'request.csr')
    const der = decodePem(readFileSync(file, 'utf8'))[0]!.der
    der[der.length - 1]! ^= 1
    writeFileSync(file, encodePem('CERTIFICATE REQUEST', der))
    await fail(/is not signed by the key it holds/, ...words`sign-request ${file} ${above} --days 9`)
  })

  test('a request whose name is not exact is not signed, because the certificate would copy it', async () => {
    const file = at('too-deep', 'unsorted.csr')
    const name = nameOf(set(organization(STRING.utf8, 'An organization'), cn('CA')))
    writeFileSync(file, encodePem('CERTIFICATE REQUEST', name))
    await fail(
      /its name is no DER: RDN is not in DER order/,
      ...words`sign-request ${file} ${above} --days 9 --passphrase-env TEST_PASSPHRASE`,
      ...words`--out ${at('too-deep', 'unsorted.pem')}`,
    )
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
    [/country code/, '--subject', 'CN=X,C=Germany'],
  ]
  test('is not begun with an option given twice, which is wrong usage', async () => {
    const { code, stderr } = await signer('keygen', '--subject', 'CN=X', '--out', at('never'), '--out', 'b')
    assert.equal(code, 2)
    assert.match(stderr, /--out: is given twice/)
  })

  for (const [reason, ...options] of WRONG) {
    test(`is not begun with ${options.join(' ')}`, () =>
      fail(
        reason,
        ...words`keygen --out ${at('never')} ${options.includes('--subject') ? [] : ['--subject', 'CN=X']}`,
        ...options,
      ))
  }
})

describe('a root that limits and revokes', requireCommand('openssl'), () => {
  const key = ['--key', at('limiting', 'key.pem')]
  const root = ['--root', at('limiting', 'root.pem')]
  const out = (name: string) => ['--out', at('limiting', name)]
  const signRequest = (...more: string[]) => ['sign-request', at('limited', 'request.csr'), ...root, ...key, ...more]
  const signCrl = (...more: string[]) => ['sign-crl', ...root, ...key, ...more]
  const issuer = at('limiting', 'issuer.pem')
  const serial = () => new X509Certificate(readFileSync(issuer)).serialNumber

  test('certifies an issuer with name constraints, and says where its CRL and its own certificate are', async () => {
    await succeed('keygen', '--out', at('limiting'), '--subject', 'CN=Limiting', '--root-days', '60')
    await succeed('keygen', '--out', at('limited'), '--subject', 'CN=Limited')
    const names = ['--permit-dns', 'corp.test', '--permit-ip', '10.0.0.0/8', '--permit-ip', '2001:db8::/32']
    const urls = ['--crl-url', 'http://pki.corp.test/root.crl', '--issuer-url', 'http://pki.corp.test/root.cer']
    const excluded = ['--exclude-dns', 'secret.corp.test', '--exclude-ip', '10.9.0.0/16']
    await succeed(...signRequest('--days', '20', ...names, ...excluded, ...urls, '--out', issuer))
    const text = openssl('x509', '-in', issuer, '-noout', '-text')
    assert.match(
      text,
      /Name Constraints: critical\s+Permitted:\s+DNS:corp\.test\s+IP:10\.0\.0\.0\/255\.0\.0\.0\s+IP:2001:DB8/,
    )
    assert.match(text, /Excluded:\s+DNS:secret\.corp\.test\s+IP:10\.9\.0\.0\/255\.255\.0\.0/)
    assert.match(text, /URI:http:\/\/pki\.corp\.test\/root\.crl/)
    assert.match(text, /CA Issuers - URI:http:\/\/pki\.corp\.test\/root\.cer/)
    assert.match(readFileSync(at('limiting', 'ceremony.log'), 'utf8'), /permitted names: corp\.test, 10\.0\.0\.0\/255/)
    await assertSigns(`    certificate: ${issuer}\n    key: { file: ${at('limited', 'key.pem')} }`)
  })

  test('has OpenSSL accept names inside the constraints of its issuer, and refuse those outside', () => {
    const judge = (name: string) => {
      writeFileSync(at('leaf.ext'), `subjectAltName=DNS:${name}\n`)
      openssl(
        ...words`req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -subj /`,
        ...words`-keyout ${at('leaf.key')} -out ${at('leaf.csr')}`,
      )
      openssl(
        ...words`x509 -req -in ${at('leaf.csr')} -CA ${issuer} -CAkey ${at('limited', 'key.pem')}`,
        ...words`-extfile ${at('leaf.ext')} -days 5 -out ${at('leaf.pem')}`,
      )
      return openssl('verify', '-CAfile', at('limiting', 'root.pem'), '-untrusted', issuer, at('leaf.pem'))
    }
    assert.throws(() => judge('x.lab.test'), /permitted subtree violation/)
    assert.throws(() => judge('b.secret.corp.test'), /excluded subtree violation/)
    assert.match(judge('www.corp.test'), /OK/)
  })

  test('lists what it has revoked, in lists that follow each other', async () => {
    const file = (name: string) => at('limiting', name)
    const verify = (...crls: string[]) =>
      openssl('verify', '-crl_check', ...crls.flatMap((crl) => ['-CRLfile', crl]), '-CAfile', file('root.pem'), issuer)
    const toPem = (name: string) => openssl('crl', '-inform', 'DER', '-in', file(name), '-out', file(`${name}.pem`))
    await succeed(...signCrl('--number', '1', '--days', '30', ...out('1.crl')))
    toPem('1.crl')
    assert.match(verify(file('1.crl.pem')), /OK/)

    const stdout = await succeed(
      ...signCrl('--previous', file('1.crl'), '--revoke', `${issuer}=keyCompromise`, '--days', '30', ...out('2.crl')),
    )
    assert.match(stdout, /number: 2\n/)
    toPem('2.crl')
    assert.throws(() => verify(file('2.crl.pem')), /certificate revoked/)
    await succeed(
      // PEM is read as well; the serial number is of a certificate that is lost.
      ...signCrl('--previous', file('2.crl.pem'), '--revoke', '01:AB=superseded', '--days', '30', ...out('3.crl')),
    )
    const text = openssl('crl', '-inform', 'DER', '-in', file('3.crl'), '-noout', '-text', '-CAfile', file('root.pem'))
    assert.match(text, /X509v3 CRL Number:\s+3/)
    const entry = `Serial Number: ${serial()}[^]*Key Compromise[^]*Serial Number: 01AB[^]*Superseded`
    assert.match(text, new RegExp(entry))
    assert.match(text, /Next Update: /)
    assert.match(readFileSync(file('ceremony.log'), 'utf8'), /revoked 01ab: \d{4}-.*, superseded/)

    // With leaf and issuer in the path, each by the list of its own CA.
    const chain = ['-untrusted', issuer, '-CAfile', file('root.pem'), at('leaf.pem')]
    writeFileSync(file('index.txt'), '')
    const config = `[ca]\ndefault_ca=x\n[x]\ndatabase=${file('index.txt')}\ndefault_md=sha256\ndefault_crl_days=9\n`
    writeFileSync(file('ca.cnf'), config)
    openssl(
      ...words`ca -config ${file('ca.cnf')} -gencrl -cert ${issuer} -keyfile ${at('limited', 'key.pem')}`,
      ...words`-out ${file('leaf.crl')}`,
    )
    const all = (name: string) =>
      openssl('verify', '-crl_check_all', '-CRLfile', file('leaf.crl'), '-CRLfile', file(name), ...chain)
    assert.match(all('1.crl.pem'), /OK/)
    assert.throws(() => all('2.crl.pem'), /certificate revoked/)
  })

  const crl = (name: string) => at('limiting', name)
  const x = out('x')
  const WRONG: [RegExp, () => string[]][] = [
    [/say which list this one follows/, () => signCrl(...words`--days 9 ${x}`)],
    [/say when the next list comes/, () => signCrl(...words`--number 1 ${x}`)],
    [
      /--number must be above that of the list before, which is 2/,
      () => signCrl(...words`--previous ${crl('2.crl')} --number 2 --days 9 ${x}`),
    ],
    [/is on the list already/, () => signCrl(...words`--previous ${crl('2.crl')} --revoke ${serial()} --days 9 ${x}`)],
    [/was not issued by the root/, () => signCrl(...words`--number 1 --revoke ${at('leaf.pem')} --days 9 ${x}`)],
    [/must be a certificate or a serial number/, () => signCrl(...words`--number 1 --revoke 01=wrong --days 9 ${x}`)],
    [/is neither a certificate file nor/, () => signCrl(...words`--number 1 --revoke nothing.pem --days 9 ${x}`)],
    [/cannot be read as a CRL/, () => signCrl(...words`--previous ${crl('root.pem')} --days 9 ${x}`)],
    [/1\.crl: exists already/, () => signCrl(...words`--number 1 --days 9 ${out('1.crl')}`)],
    [
      /--permit-dns \*\.corp\.test: must be a lower-case domain/,
      () => signRequest(...words`--days 9 --permit-dns *.corp.test ${x}`),
    ],
    [/--exclude-ip 10\.0\.0\.0: must be a network/, () => signRequest(...words`--days 9 --exclude-ip 10.0.0.0 ${x}`)],
    [
      /--crl-url https:.*: must be an http:\/\/ URL/,
      () => signRequest(...words`--days 9 --crl-url https://a.test/x ${x}`),
    ],
    [
      /the name constraints admit no name/,
      () =>
        signRequest(
          ...words`--days 9 --permit-dns a.test --exclude-dns a.test --exclude-ip 0.0.0.0/0 --exclude-ip ::/0 ${x}`,
        ),
    ],
  ]
  test('signs nothing that is not clear', async () => {
    for (const [reason, args] of WRONG) await fail(reason, ...args())
    assert.ok(!readdirSync(at('limiting')).includes('x'))
  })
})

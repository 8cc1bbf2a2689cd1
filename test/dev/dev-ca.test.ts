import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, describe, test } from 'node:test'
import { ensureDevCa } from '../../src/dev/dev-ca.ts'
import { requireCommand } from '../support/requirements.ts'
import { words } from '../support/words.ts'

const now = new Date('2026-11-21T10:00:00.500Z')

describe('development CA', () => {
  const folders: string[] = []
  const newFolder = () => {
    const folder = mkdtempSync(path.join(tmpdir(), 'chancery-dev-ca-'))
    folders.push(folder)
    return path.join(folder, 'ca')
  }
  after(() => {
    for (const folder of folders) rmSync(folder, { recursive: true, force: true })
  })
  const read = (file: string) => new X509Certificate(readFileSync(file))

  test('the first start makes a root of ten years and an intermediate of five, signed by it', async () => {
    const { files, isNew } = await ensureDevCa(newFolder(), now)
    const [root, intermediate] = [read(files.root), read(files.intermediate)]
    assert.ok(isNew)
    assert.ok(root.verify(root.publicKey) && intermediate.verify(root.publicKey))
    assert.match(root.subject, /^CN=Chancery Development Root [0-9a-f]{6}$/)
    assert.equal(intermediate.subject, 'CN=Chancery Development Intermediate')
    assert.equal(intermediate.issuer, root.subject)
    assert.ok(root.ca && intermediate.ca && intermediate.checkIssued(root))
    assert.equal(Date.parse(root.validTo), Date.parse('2036-11-21T09:00:00Z'))
    assert.equal(Date.parse(intermediate.validTo), Date.parse('2031-11-21T09:00:00Z'))
    assert.ok(root.checkPrivateKey(createPrivateKey(readFileSync(files.rootKey))))
    assert.ok(intermediate.checkPrivateKey(createPrivateKey(readFileSync(files.intermediateKey))))
  })

  test('keys are readable by their owner only, and nothing else lies in the folder', async () => {
    const folder = newFolder()
    const { files } = await ensureDevCa(folder, now)
    assert.equal(statSync(files.rootKey).mode & 0o777, 0o600)
    assert.equal(statSync(files.intermediateKey).mode & 0o777, 0o600)
    assert.equal(statSync(files.root).mode & 0o777, 0o644)
    const names = ['intermediate-key.pem', 'intermediate.pem', 'root-key.pem', 'root.pem']
    assert.deepEqual(readdirSync(folder).sort(), names)
  })

  test('a second start changes nothing', async () => {
    const folder = newFolder()
    const { files } = await ensureDevCa(folder, now)
    const before = Object.values(files).map((file) => readFileSync(file, 'utf8'))
    const again = await ensureDevCa(folder, new Date('2027-01-01T00:00:00Z'))
    assert.ok(!again.isNew)
    for (const [at, file] of Object.values(files).entries()) assert.equal(readFileSync(file, 'utf8'), before[at])
  })

  test('the root key is not needed after the first start', async () => {
    const folder = newFolder()
    const { files } = await ensureDevCa(folder, now)
    rmSync(files.rootKey)
    await ensureDevCa(folder, now)
    rmSync(files.intermediate)
    await assert.rejects(ensureDevCa(folder, now), /cannot be made anew without the root key/)
  })

  test('a start that was interrupted after any step is completed', async () => {
    const steps = ['rootKey', 'root', 'intermediateKey', 'intermediate'] as const
    for (const done of [1, 2, 3]) {
      const folder = newFolder()
      const { files } = await ensureDevCa(folder, now)
      for (const step of steps.slice(done)) rmSync(files[step])
      await ensureDevCa(folder, now)
      assert.ok(read(files.intermediate).verify(read(files.root).publicKey))
      assert.ok(read(files.intermediate).checkPrivateKey(createPrivateKey(readFileSync(files.intermediateKey))))
      assert.ok(read(files.root).checkPrivateKey(createPrivateKey(readFileSync(files.rootKey))))
    }
  })

  test('an intermediate made anew late in the root life ends with the root', async () => {
    const folder = newFolder()
    const { files } = await ensureDevCa(folder, now)
    rmSync(files.intermediate)
    await ensureDevCa(folder, new Date('2035-01-01T00:00:00Z'))
    assert.equal(read(files.intermediate).validTo, read(files.root).validTo)
  })
})

describe('development CA, read by openssl', requireCommand('openssl'), () => {
  // RFC 5280 §4.2.1.9, §4.2.1.3: both extensions are critical in a CA certificate.
  test('the chain verifies strictly and the extensions are as RFC 5280 wants them', async () => {
    const folder = mkdtempSync(path.join(tmpdir(), 'chancery-dev-ca-'))
    after(() => rmSync(folder, { recursive: true, force: true }))
    const { files } = await ensureDevCa(path.join(folder, 'ca'), new Date())
    const openssl = (...args: string[]) => execFileSync('openssl', args, { encoding: 'utf8' })
    const leaf = path.join(folder, 'leaf.pem')
    const extensions = path.join(folder, 'leaf.cnf')
    const lines = words`[req] distinguished_name=name [name] [leaf] basicConstraints=critical,CA:FALSE
      keyUsage=critical,digitalSignature subjectKeyIdentifier=hash authorityKeyIdentifier=keyid
      subjectAltName=critical,DNS:demo.test`
    writeFileSync(extensions, lines.join('\n'))
    openssl(
      ...words`req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj / -days 1 -config ${extensions}
        -extensions leaf -CA ${files.intermediate} -CAkey ${files.intermediateKey}
        -keyout ${path.join(folder, 'leaf.key')} -out ${leaf}`,
    )
    const verdict = openssl(
      ...words`verify -x509_strict -CAfile ${files.root} -untrusted ${files.intermediate} ${leaf}`,
    )
    assert.match(verdict, /OK/)
    const text = openssl('x509', '-in', files.intermediate, '-noout', '-text')
    assert.match(text, /X509v3 Basic Constraints: critical\s+CA:TRUE, pathlen:0/)
    assert.match(text, /X509v3 Key Usage: critical\s+Certificate Sign, CRL Sign/)
    assert.doesNotMatch(text, /Name Constraints/)
  })
})

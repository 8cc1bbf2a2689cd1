/** The service's own server certificate: when it is issued, kept and renewed. */

import assert from 'node:assert/strict'
import { createPublicKey, X509Certificate } from 'node:crypto'
import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { beforeEach, describe, test } from 'node:test'
import type { Issuance } from '../../../src/services/issuance.ts'
import { admittedNames, ensureServerCertificate } from '../../../src/services/server-certificate.ts'
import {
  type Authority,
  caIssuerOf,
  constraintsOn,
  DAY_MS,
  leafTbs,
  makeAuthority,
  signedBy,
} from '../../signer/authority.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const NOW = new Date()
const inDays = (days: number) => new Date(NOW.getTime() + days * DAY_MS)

/** Issues for 90 days and counts. */
function anIssuance(authority: Authority) {
  const asked: string[][] = []
  const issuance: Pick<Issuance, 'issueToSelf' | 'issuerForSelf'> = {
    issuerForSelf: () => caIssuerOf(authority),
    async issueToSelf(names, spki) {
      asked.push(names.map(({ type, value }) => `${type}:${value}`))
      const values = (type: string) => names.filter((name) => name.type === type).map(({ value }) => value)
      const tbs = leafTbs(authority, { spki: spki.der, dnsNames: values('dns'), ipAddresses: values('ip') })
      return { der: signedBy(authority, tbs), issuer: caIssuerOf(authority) }
    },
  }
  return { issuance, asked }
}

describe('server certificate', () => {
  const authority = makeAuthority()
  const names = ['localhost', '127.0.0.1']
  let folder: string
  let files: { certPath: string; keyPath: string }
  let ca: ReturnType<typeof anIssuance>
  beforeEach(() => {
    folder = temporaryFolder()
    files = { certPath: path.join(folder, 'new', 'cert.pem'), keyPath: path.join(folder, 'new', 'key.pem') }
    ca = anIssuance(authority)
  })

  const ensure = (over: { names?: string[]; now?: Date } = {}) =>
    ensureServerCertificate(files, over.names ?? names, ca.issuance, over.now ?? NOW)

  test('the first is issued for the names, with a key that only the owner reads', async () => {
    assert.equal(await ensure(), true)
    assert.deepEqual(ca.asked, [['dns:localhost', 'ip:127.0.0.1']])
    const certificate = new X509Certificate(readFileSync(files.certPath))
    assert.ok(certificate.checkHost('localhost') && certificate.checkIP('127.0.0.1'))
    assert.ok(certificate.publicKey.equals(createPublicKey(readFileSync(files.keyPath))))
    assert.equal(statSync(files.keyPath).mode & 0o777, 0o600)
  })

  test('one that is good is kept', async () => {
    await ensure()
    assert.equal(await ensure(), false)
    assert.equal(await ensure({ now: inDays(59) }), false)
    assert.equal(await ensure({ names: ['localhost'] }), false)
    ca.issuance.issuerForSelf = () => undefined
    assert.equal(await ensure(), false)
    assert.equal(ca.asked.length, 1)
  })

  const SPOILED: Record<string, () => Promise<Parameters<typeof ensure>[0]>> = {
    'of which less than a third of the lifetime is left': async () => ({ now: inDays(61) }),
    'that is not for one of the names': async () => ({ names: [...names, 'other.test'] }),
    'of another issuer': async () => {
      ca = anIssuance(makeAuthority())
    },
    'whose key is missing': async () => void rmSync(files.keyPath),
    'whose key is that of another': async () => {
      const key = readFileSync(files.keyPath)
      await ensure({ names: ['other.test'] })
      writeFileSync(files.keyPath, key)
      return { names: ['other.test'] }
    },
    'that is no certificate': async () => void writeFileSync(files.certPath, 'half a fi'),
    'whose key is no key': async () => void writeFileSync(files.keyPath, ''),
  }
  for (const [which, spoil] of Object.entries(SPOILED))
    test(`one ${which} is replaced`, async () => {
      await ensure()
      const over = await spoil()
      assert.equal(await ensure(over), true)
      const certificate = new X509Certificate(readFileSync(files.certPath))
      assert.ok(certificate.publicKey.equals(createPublicKey(readFileSync(files.keyPath))))
      for (const name of over?.names ?? ['localhost'])
        if (name !== '127.0.0.1') assert.ok(certificate.checkHost(name), name)
    })

  // RFC 5280 §4.2.1.10: no verifier accepts a certificate with a name outside.
  test('names outside the name constraints of the issuer are left out; with no name left nothing is issued', async () => {
    const issuer = caIssuerOf(authority, { constraints: [constraintsOn({ dns: ['corp.test'], ip: [] })] })
    ca.issuance.issuerForSelf = () => issuer
    assert.deepEqual(admittedNames(['acme.corp.test', 'localhost'], issuer), {
      admitted: ['acme.corp.test'],
      outside: ['localhost'],
    })
    assert.equal(await ensure({ names: ['acme.corp.test', 'localhost', '127.0.0.1'] }), true)
    assert.deepEqual(ca.asked, [['dns:acme.corp.test']])
    assert.equal(await ensure({ names: ['acme.corp.test', 'localhost'] }), false)
    await assert.rejects(
      ensure({ names: ['localhost'] }),
      /self_issued_names: the name constraints of the CA admit none/,
    )
  })

  // Under a supervisor that starts it again and again, each start would record a certificate.
  for (const [which, key] of [
    ['certificate', 'cert_path'],
    ['key', 'key_path'],
  ] as const)
    test(`nothing is issued where the ${which} could not be written, and the setting is named`, async () => {
      writeFileSync(path.join(folder, 'file'), '')
      const place = path.join(folder, 'file', 'x.pem')
      files = key === 'cert_path' ? { ...files, certPath: place } : { ...files, keyPath: place }
      await assert.rejects(ensure(), new RegExp(`^Error: server\\.tls\\.${key}: ${place}: cannot be written: E`))
      assert.deepEqual(ca.asked, [])
    })

  test('looking whether the files can be written leaves nothing behind', async () => {
    ca.issuance.issueToSelf = () => Promise.reject(new Error('the CA is away'))
    await assert.rejects(ensure(), /away/)
    assert.deepEqual(readdirSync(path.dirname(files.certPath)), [])
  })

  test('what cannot be issued leaves the old files as they are', async () => {
    await ensure()
    const before = readFileSync(files.certPath, 'utf8')
    ca.issuance.issueToSelf = () => Promise.reject(new Error('the CA is away'))
    await assert.rejects(ensure({ now: inDays(80) }), /away/)
    assert.equal(readFileSync(files.certPath, 'utf8'), before)
  })
})

/** Files that a configuration names: each fault is told with the key, the file and the reason. */

import assert from 'node:assert/strict'
import { generateKeyPairSync } from 'node:crypto'
import { chmodSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { before, describe, test } from 'node:test'
import {
  type FileFindings,
  inspectBackendFiles,
  inspectPerspectiveFiles,
  inspectServiceFiles,
} from '../../../src/cli/configured-files.ts'
import { formatNotice } from '../../../src/shared/config-file/notice.ts'
import { makeAuthority } from '../../signer/authority.ts'
import { loopbackCertificate, writeCertificate } from '../../support/certificates.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { aConfig, type Tree } from '../config/support.ts'

const NONE: FileFindings = { errors: [], warnings: [] }

describe('files of a configuration', () => {
  const folder = temporaryFolder()
  const at = (name: string) => path.join(folder, name)
  const root = makeAuthority()
  let own: { cert: string; key: string }
  let other: { cert: string; key: string }
  before(async () => {
    own = writeCertificate(folder, 'own', await loopbackCertificate())
    other = writeCertificate(folder, 'other', await loopbackCertificate())
    writeFileSync(at('garbage'), 'half a fi', { mode: 0o600 })
    writeFileSync(at('torn.pem'), '-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n')
    writeFileSync(at('chain.pem'), `Bag: a leaf-to-be\n${readFileSync(own.cert)}\n${readFileSync(other.cert)}`)
    writeFileSync(at('secret'), 'ab'.repeat(32), { mode: 0o600 })
    writeFileSync(at('open.key'), readFileSync(own.key), { mode: 0o600 })
    chmodSync(at('open.key'), 0o644)
    const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
    const cipher = { format: 'pem', type: 'pkcs8', cipher: 'aes-256-cbc', passphrase: 'x' } as const
    writeFileSync(at('encrypted.key'), privateKey.export(cipher), { mode: 0o600 })
  })
  const internal = () => ({ ca: { internal: { root_cert_path: own.cert, root_key_path: own.key } } })
  const service = (tree: Tree) => inspectServiceFiles(aConfig({ ...internal(), ...tree }))
  const tls = (cert_path: string, key_path: string, self_issued_names: string[] = []) =>
    service({ server: { tls: { cert_path, key_path, self_issued_names } } })
  const said = ({ errors, warnings }: FileFindings) => ({
    errors: errors.map(formatNotice),
    warnings: warnings.map(formatNotice),
  })

  test('that are as they should be are no matter', () => {
    assert.deepEqual(tls(own.cert, own.key), NONE)
    assert.deepEqual(tls(at('chain.pem'), own.key), NONE)
    assert.deepEqual(service({}), NONE)
  })

  // Node's own reason for all of these was one and the same sentence.
  const TLS_FAULTS: [string, () => FileFindings, () => string[]][] = [
    [
      'a certificate that is not there',
      () => tls('/nowhere/cert.pem', own.key),
      () => ['server.tls.cert_path: /nowhere/cert.pem: cannot be read: ENOENT, there is no such file'],
    ],
    [
      'no certificate in the file',
      () => tls(own.key, own.key),
      () => [`server.tls.cert_path: ${own.key}: holds no certificate in PEM form`],
    ],
    [
      'a certificate that is torn',
      () => tls(at('torn.pem'), own.key),
      () => [`server.tls.cert_path: ${at('torn.pem')}: certificate 1 in it cannot be parsed`],
    ],
    [
      'no key in the file',
      () => tls(own.cert, at('garbage')),
      () => [`server.tls.key_path: ${at('garbage')}: holds no private key in PEM form`],
    ],
    [
      'a key behind a passphrase',
      () => tls(own.cert, at('encrypted.key')),
      () => [
        `server.tls.key_path: ${at('encrypted.key')}: holds an encrypted key, and there is no setting for a passphrase`,
      ],
    ],
    [
      'the key of another certificate',
      () => tls(own.cert, other.key),
      () => [
        `server.tls.key_path: ${other.key}: is not the key of the first certificate in ${own.cert} (server.tls.cert_path)`,
      ],
    ],
    [
      'a folder, and a file in a file',
      () => tls(folder, path.join(own.key, 'key.pem')),
      () => [
        `server.tls.cert_path: ${folder}: cannot be read: EISDIR, it is a folder`,
        `server.tls.key_path: ${own.key}/key.pem: cannot be read: ENOTDIR, a part of its path is no folder`,
      ],
    ],
  ]
  for (const [what, inspect, errors] of TLS_FAULTS)
    test(`TLS: ${what}`, () => assert.deepEqual(said(inspect()), { errors: errors(), warnings: [] }))

  test('TLS: a key that every user may read is a warning', () => {
    const file = at('open.key')
    assert.deepEqual(said(tls(own.cert, file)), {
      errors: [],
      warnings: [`server.tls.key_path: ${file}: mode 644 lets every user read it; use 600 or 640`],
    })
  })

  test('TLS that the service issues itself may be absent, where it can be written', () => {
    assert.deepEqual(tls(at('new/deep/cert.pem'), at('new/deep/key.pem'), ['localhost']), NONE)
    const inFile = path.join(own.cert, 'cert.pem')
    assert.deepEqual(said(tls(inFile, at('new/key.pem'), ['localhost'])), {
      errors: [`server.tls.cert_path: ${inFile}: cannot be written: ${own.cert} is no folder`],
      warnings: [],
    })
  })

  test('certificates that have expired are a warning, and an error where they sign', () => {
    const expired = at('expired.pem')
    const { certificatePem, notAfter } = makeAuthority('P-256', { daysAhead: -1 })
    writeFileSync(expired, certificatePem)
    const ending = `${expired}: certificate 1 in it has expired, at ${notAfter.toISOString()}`
    const signing = (internal: object) => service({ ca: { internal: { root_key_path: own.key, ...internal } } })
    assert.deepEqual(said(signing({ root_cert_path: expired })).errors, [`ca.internal.root_cert_path: ${ending}`])
    assert.deepEqual(said(signing({ root_cert_path: own.cert, chain_path: expired })), {
      errors: [],
      warnings: [`ca.internal.chain_path: ${ending}`],
    })
  })

  test('of a running signer: the secret', () => {
    const signer = (secret_file: string) =>
      said(inspectBackendFiles(aConfig({ ca: { signer: { socket: '/run/s.sock', secret_file } } }))).errors
    assert.deepEqual(signer(at('secret')), [])
    assert.deepEqual(signer('/nowhere'), [
      'ca.signer.secret_file: /nowhere: cannot be read: ENOENT, there is no such file',
    ])
    assert.deepEqual(signer(folder), [`ca.signer.secret_file: ${folder}: is not a file`])
    assert.match(signer(at('garbage'))[0] as string, /^ca\.signer\.secret_file: .*9 bytes are too few/)
    assert.match(signer(own.cert)[0] as string, /^ca\.signer\.secret_file: .*too open for a secret/)
  })

  test('of a signer that the service starts: certificates and key, which is not opened', () => {
    const ca = { internal: { root_cert_path: at('secret'), root_key_path: at('open.key'), chain_path: '/nowhere' } }
    assert.deepEqual(said(inspectBackendFiles(aConfig({ ca }))).errors, [
      `ca.internal.root_cert_path: ${at('secret')}: holds no certificate in PEM form`,
      `ca.internal.root_key_path: ${at('open.key')}: mode 644 lets others read it; use 600 or 400`,
      'ca.internal.chain_path: /nowhere: cannot be read: ENOENT, there is no such file',
    ])
    const hsm = { pkcs11_library: '/nowhere/lib.so', issuer_cert_path: own.cert, token_label: 't', key_label: 'k' }
    assert.deepEqual(said(inspectBackendFiles(aConfig({ ca: { backend: 'hsm', hsm } }))).errors, [
      'ca.hsm.pkcs11_library: /nowhere/lib.so: cannot be read: ENOENT, there is no such file',
    ])
  })

  test('of binding credentials and perspectives', () => {
    const perspective = { name: 'far', url: 'https://far.example' }
    const perspectives = [
      { ...perspective, ca_path: at('garbage') },
      { ...perspective, client_cert_path: own.cert, client_key_path: other.key },
    ]
    assert.deepEqual(said(service({ acme: { eab_key_file: at('garbage') }, challenges: { perspectives } })).errors, [
      `acme.eab_key_file: ${at('garbage')} has 9 bytes; it needs at least 32`,
      `challenges.perspectives[0].ca_path: ${at('garbage')}: holds no certificate in PEM form`,
      `challenges.perspectives[1].client_key_path: ${other.key}: is not the key of the first certificate in ${own.cert} (challenges.perspectives[1].client_cert_path)`,
    ])
  })

  test('with roots have nothing else', () => {
    const rootsOf = (name: string) => said(service({ api: { roots_path: '/roots.pem', roots_file: at(name) } })).errors
    writeFileSync(at('root.pem'), root.certificatePem)
    writeFileSync(at('intermediate.pem'), makeAuthority('P-256', { name: 'Below', by: root }).certificatePem)
    assert.deepEqual(rootsOf('root.pem'), [])
    assert.deepEqual(rootsOf('intermediate.pem'), [
      `api.roots_file: ${at('intermediate.pem')}: certificate 1 in it is no root: a root is a CA certificate that has signed itself`,
    ])
    assert.deepEqual(rootsOf('garbage'), [`api.roots_file: ${at('garbage')}: holds no certificate in PEM form`])
  })

  test('of a perspective', () => {
    const inspect = (perspective: Tree) => said(inspectPerspectiveFiles(aConfig({ perspective }))).errors
    assert.deepEqual(inspect({ cert_path: own.cert, key_path: own.key, client_ca_path: other.cert }), [])
    assert.deepEqual(inspect({ cert_path: own.cert, key_path: '/nowhere' }), [
      'perspective.key_path: /nowhere: cannot be read: ENOENT, there is no such file',
    ])
  })
})

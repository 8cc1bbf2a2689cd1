/**
 * Chains of every kind of issuer key, in a file and in a token, every kind of leaf key and every profile, issued by one
 * service and judged by OpenSSL, GnuTLS and Python's cryptography from Debian. What they make of CRLs is in `crl.test.ts`.
 */

import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { SIGNATURE_ALGORITHMS } from '../../src/shared/pki/algorithms.ts'
import { type Authority, type AuthorityKind, makeAuthority } from '../signer/authority.ts'
import { TestSigner } from '../signer/daemon.ts'
import { acmeScene } from '../support/acme-scene.ts'
import { makeToken, SOFTHSM_LIBRARY, type TestToken } from '../support/hosts/softhsm.ts'
import { ALL_KEYS } from '../support/keys.ts'
import { requireAll, requireCommand, requirePackage } from '../support/requirements.ts'
import { startTestService } from '../support/service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const KINDS: readonly AuthorityKind[] = ['P-256', 'P-384', 'P-521', 'RSA', 'Ed25519']
const HASHES = { 'P-256': 'sha256', 'P-384': 'sha384', 'P-521': 'sha512', RSA: 'sha384', Ed25519: 'sha256' } as const

interface Purpose {
  keyUsages: readonly string[]
  extendedKeyUsages: readonly string[]
  openssl: readonly string[]
  server: boolean
}

/** Each has a profile for each issuer. */
const PURPOSES: Record<string, Purpose> = {
  server: {
    keyUsages: ['digital_signature', 'key_encipherment'],
    extendedKeyUsages: ['server_auth'],
    openssl: ['sslserver'],
    server: true,
  },
  client: {
    keyUsages: ['digital_signature'],
    extendedKeyUsages: ['client_auth'],
    openssl: ['sslclient'],
    server: false,
  },
  both: {
    keyUsages: ['digital_signature', 'key_encipherment', 'key_agreement'],
    extendedKeyUsages: ['server_auth', 'client_auth'],
    openssl: ['sslserver', 'sslclient'],
    server: true,
  },
}

const NEEDS_TOKEN = requireAll(requireCommand('softhsm2-util'), requirePackage('graphene-pk11'))
const PLACES = NEEDS_TOKEN.skip === false ? ['file', 'token'] : ['file']
const ISSUERS = PLACES.flatMap((place) =>
  KINDS.filter((kind) => place === 'file' || kind !== 'Ed25519').map((kind) => ({
    id: `${place}-${kind}`,
    place,
    kind,
  })),
)

interface Leaf {
  file: string
  name: string
  purpose: Purpose
}

describe('chains', () => {
  const authorities: Record<string, Authority> = Object.fromEntries(
    ISSUERS.map(({ id, kind }) => [id, makeAuthority(kind, { hash: HASHES[kind] })]),
  )
  const folder = temporaryFolder()
  let token: TestToken | undefined
  let signer: TestSigner
  const leaves = new Map<string, Leaf[]>()
  before(async () => {
    const inToken = ISSUERS.filter(({ place }) => place === 'token')
    if (inToken.length > 0) token = makeToken()
    const keys = inToken.map(({ id }) => {
      token!.importKey(authorities[id]!.privateKey, id, Buffer.from(id).toString('hex'))
      return [id, { library: SOFTHSM_LIBRARY, token: 'ca', pin_file: token!.pinFile, label: id, sessions: 2 }]
    })
    signer = new TestSigner(authorities, { tokenKeys: Object.fromEntries(keys), ...(token && { env: token.env }) })
    await signer.start()
  })
  after(async () => {
    await signer?.end()
    token?.remove()
  })
  const { responder, client } = acmeScene(() => {
    const profiles = ISSUERS.flatMap(({ id }) =>
      Object.entries(PURPOSES).map(([purpose, { keyUsages, extendedKeyUsages }]) => [
        `${id}-${purpose}`,
        {
          issuer: id,
          key_usages: keyUsages,
          extended_key_usages: extendedKeyUsages,
          key_types: ['RSA', 'P-256', 'P-384', 'P-521', 'Ed25519'],
        },
      ]),
    )
    return startTestService({
      fronts: 1,
      config: {
        security: { allowed_csr_signature_algorithms: Object.keys(SIGNATURE_ALGORITHMS) },
        ca: {
          signer: signer.section,
          profiles: Object.fromEntries(profiles),
          policy_oids: ['2.23.140.1.2.1'],
          aia_issuer_urls: ['http://ca.example.test/issuer.der'],
        },
      },
    })
  })

  const at = (id: string, name: string) => path.join(folder, id, name)

  for (const [nth, { id }] of ISSUERS.entries()) {
    describe(`of the issuer ${id}`, () => {
      // Each key has one of the profiles, and another one with the next issuer.
      test('are issued for every profile and kind of key', async () => {
        mkdirSync(path.join(folder, id))
        writeFileSync(at(id, 'root.pem'), authorities[id]!.certificatePem)
        const made: Leaf[] = []
        const purposes = Object.entries(PURPOSES)
        for (const [index, key] of ALL_KEYS.entries()) {
          const [purposeName, purpose] = purposes[(nth + index) % purposes.length] as [string, Purpose]
          const name = `${key.label.toLowerCase()}.test`
          const { chain } = await client.obtain([name], responder, { order: { profile: `${id}-${purposeName}` }, key })
          const file = at(id, `${purposeName}-${key.label}.pem`)
          writeFileSync(file, chain)
          made.push({ file, name, purpose })
        }
        leaves.set(id, made)
        assert.equal(new Set(made.map(({ purpose }) => purpose)).size, purposes.length)
      })

      test('pass openssl verify -x509_strict for their purpose and name', requireCommand('openssl'), () => {
        for (const { file, name, purpose } of leaves.get(id)!) {
          for (const use of purpose.openssl) {
            const options = ['-x509_strict', '-no-CApath', '-no-CAstore', '-CAfile', at(id, 'root.pem')]
            const checks = ['-purpose', use, '-verify_hostname', name]
            execFileSync('openssl', ['verify', ...options, ...checks, file], { stdio: 'pipe' })
          }
        }
      })

      test('pass certtool --verify', requireCommand('certtool'), () => {
        for (const { file, name, purpose } of leaves.get(id)!) {
          const forServer = ['--verify-hostname', name, '--verify-purpose', '1.3.6.1.5.5.7.3.1']
          const checks = purpose.server ? forServer : ['--verify-purpose', '1.3.6.1.5.5.7.3.2']
          const args = ['--verify', '--load-ca-certificate', at(id, 'root.pem'), '--infile', file, ...checks]
          const { status, stdout, stderr } = spawnSync('certtool', args, { encoding: 'utf8' })
          assert.match(stdout + stderr, /Chain verification output: Verified\./, file)
          assert.equal(status, 0, stdout + stderr)
        }
      })

      test("pass Python's cryptography", requireCommand('python3'), () => {
        const input = JSON.stringify({
          root: at(id, 'root.pem'),
          leaves: leaves.get(id)!.map(({ file, name, purpose }) => ({ file, name, server: purpose.server })),
        })
        const { stdout, stderr } = spawnSync('/usr/bin/python3', ['-c', PYTHON], { input, encoding: 'utf8' })
        assert.match(stdout, new RegExp(`^${leaves.get(id)!.length} verified`), stderr)
      })
    })
  }
})

/**
 * Signatures, names, key identifiers, validity and usages with any version. Path validation came with version 42, later than
 * Debian 12; it knows server certificates, and of the algorithms those of the Baseline Requirements, so no Ed25519.
 */
const PYTHON = `
import datetime, json, sys
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
try:
    from cryptography.x509 import verification
except ImportError:
    verification = None

def load(file):
    return x509.load_pem_x509_certificate(open(file, "rb").read())

def verify_signature(key, certificate):
    signed = (certificate.signature, certificate.tbs_certificate_bytes)
    if isinstance(key, rsa.RSAPublicKey):
        key.verify(*signed, padding.PKCS1v15(), certificate.signature_hash_algorithm)
    elif isinstance(key, ec.EllipticCurvePublicKey):
        key.verify(*signed, ec.ECDSA(certificate.signature_hash_algorithm))
    else:
        key.verify(*signed)

def extension(certificate, kind, critical):
    found = certificate.extensions.get_extension_for_class(kind)
    assert found.critical == critical, kind
    return found.value

asked = json.load(sys.stdin)
root = load(asked["root"])
verify_signature(root.public_key(), root)
assert extension(root, x509.BasicConstraints, True).ca
assert extension(root, x509.KeyUsage, True).key_cert_sign
now = datetime.datetime.utcnow()
validated = 0
for wanted in asked["leaves"]:
    leaf = load(wanted["file"])
    verify_signature(root.public_key(), leaf)
    assert leaf.version == x509.Version.v3 and leaf.issuer == root.subject
    assert leaf.not_valid_before <= now <= leaf.not_valid_after <= root.not_valid_after
    assert not extension(leaf, x509.BasicConstraints, True).ca
    assert not extension(leaf, x509.KeyUsage, True).key_cert_sign
    assert extension(leaf, x509.AuthorityKeyIdentifier, False).key_identifier == extension(root, x509.SubjectKeyIdentifier, False).digest
    names = extension(leaf, x509.SubjectAlternativeName, len(leaf.subject.rdns) == 0)
    assert names.get_values_for_type(x509.DNSName) == [wanted["name"]]
    purposes = list(extension(leaf, x509.ExtendedKeyUsage, False))
    assert (x509.oid.ExtendedKeyUsageOID.SERVER_AUTH in purposes) == wanted["server"]
    keys = (root.public_key(), leaf.public_key())
    if verification and wanted["server"] and not any(isinstance(key, ed25519.Ed25519PublicKey) for key in keys):
        builder = verification.PolicyBuilder().store(verification.Store([root]))
        builder.build_server_verifier(x509.DNSName(wanted["name"])).verify(leaf, [])
        validated += 1
assert validated > 0 or verification is None or isinstance(root.public_key(), ed25519.Ed25519PublicKey)
print(len(asked["leaves"]), "verified,", validated, "of them with path validation")
`

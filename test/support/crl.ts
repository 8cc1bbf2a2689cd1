/** CRLs as others read them: what they say, and what openssl, GnuTLS and Python's cryptography make of them. */

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { serialNumberHex } from '../../src/shared/pki/certificate.ts'
import { readSingle, TAG } from '../../src/shared/pki/der.ts'
import { encodePem } from '../../src/shared/pki/pem.ts'
import { type CrlHeader, TbsCertListReader } from '../../src/shared/pki/tbs-cert-list-reader.ts'
import { words } from './words.ts'

export interface ReadCrl {
  number: bigint
  thisUpdate: Date
  nextUpdate: Date
  entries: { serial: string; revokedAt: Date; reason: number | undefined }[]
}

/** Uses our own reader: @peculiar/x509, which agrees with it (`test/unit/shared/pki/tbs-cert-list.test.ts`), stops at 3,300 entries. */
export function readCrl(der: Buffer): ReadCrl {
  const tbs = readSingle(der, TAG.sequence, 'CertificateList').any()
  const entries: ReadCrl['entries'] = []
  let header: CrlHeader | undefined
  const reader = new TbsCertListReader({
    header: (found) => {
      header = found
    },
    entry: ({ serialNumber, revokedAt, reason }) =>
      entries.push({ serial: serialNumberHex(serialNumber), revokedAt: revokedAt.at, reason }),
  })
  reader.push(tbs)
  const { number } = reader.finish()
  assert.ok(header?.nextUpdate && number)
  const [thisUpdate, nextUpdate] = [header.thisUpdate.at, header.nextUpdate.at]
  return { number: BigInt(`0x${number.toString('hex')}`), thisUpdate, nextUpdate, entries }
}

const PEM = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----\n?/g

/** A folder with leaf.pem, issuer.pem and crl.pem for the programs that judge them; it is removed afterwards. */
export function withCrlFiles<T>(chain: string, crl: Buffer, work: (folder: string) => T): T {
  const [leaf = '', issuer = ''] = chain.match(PEM) ?? []
  const folder = mkdtempSync(path.join(tmpdir(), 'chancery-crl-'))
  try {
    writeFileSync(path.join(folder, 'leaf.pem'), leaf)
    writeFileSync(path.join(folder, 'issuer.pem'), issuer)
    writeFileSync(path.join(folder, 'crl.pem'), encodePem('X509 CRL', crl))
    writeFileSync(path.join(folder, 'crl.der'), crl)
    return work(folder)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

export interface Judged {
  /** Leaf and issuer, PEM. */
  chain: string
  rootFile: string
  crl: Buffer
  revoked: boolean
}

/** The verdict of openssl on the leaf, with the CRL checked for it. */
export function verifyWithOpenssl({ chain, rootFile, crl, revoked }: Judged): void {
  withCrlFiles(chain, crl, (folder) => {
    const trust = words`-no-CApath -no-CAstore -CAfile ${rootFile} -untrusted issuer.pem`
    const args = words`verify -x509_strict -crl_check ${trust} -CRLfile crl.pem leaf.pem`
    const { status, stdout, stderr } = spawnSync('openssl', args, { cwd: folder, encoding: 'utf8' })
    if (revoked) assert.match(stderr, /error 23 at 0 depth lookup: certificate revoked/)
    assert.equal(status === 0, !revoked, stdout + stderr)
  })
}

/** The verdict of GnuTLS: on the CRL's own signature first, then on the chain with it. */
export function verifyWithGnutls({ chain, rootFile, crl, revoked }: Judged): void {
  withCrlFiles(chain, crl, (folder) => {
    const certtool = (...args: string[]) => spawnSync('certtool', args, { cwd: folder, encoding: 'utf8' })
    const own = certtool('--verify-crl', '--load-ca-certificate', 'issuer.pem', '--infile', 'crl.pem')
    assert.match(own.stdout + own.stderr, /Verification output: Verified\./)
    writeFileSync(path.join(folder, 'chain.pem'), chain)
    const judgement = certtool(
      ...words`--verify --load-ca-certificate ${rootFile} --load-crl crl.pem --infile chain.pem`,
    )
    const said = judgement.stdout + judgement.stderr
    if (revoked) assert.match(said, /revoked/i)
    else assert.match(said, /Chain verification output: Verified\./)
    assert.equal(judgement.status === 0, !revoked, said)
  })
}

const PYTHON = `
import sys
from cryptography import x509
leaf, issuer = (x509.load_pem_x509_certificate(open(name, "rb").read()) for name in ("leaf.pem", "issuer.pem"))
crl = x509.load_der_x509_crl(open("crl.der", "rb").read())
assert crl.is_signature_valid(issuer.public_key())
assert crl.issuer == issuer.subject == leaf.issuer
extension = lambda of, kind: of.extensions.get_extension_for_class(kind).value
key = extension(issuer, x509.SubjectKeyIdentifier).digest
assert extension(crl, x509.AuthorityKeyIdentifier).key_identifier == key
assert extension(crl, x509.CRLNumber).crl_number > 0
points = [point.full_name for point in extension(leaf, x509.CRLDistributionPoints)]
try:
    found = crl.extensions.get_extension_for_class(x509.IssuingDistributionPoint)
    assert found.critical and [found.value.full_name] == points
except x509.ExtensionNotFound:
    pass
entry = crl.get_revoked_certificate_by_serial_number(leaf.serial_number)
print("good" if entry is None else extension(entry, x509.CRLReason).reason.value)
`

/** Asserts that Python's cryptography reads and verifies it. The reason of a revoked certificate is superseded. */
export function verifyWithPython({ chain, crl, revoked }: Judged): void {
  withCrlFiles(chain, crl, (folder) => {
    const { stdout, stderr } = spawnSync('/usr/bin/python3', ['-c', PYTHON], { cwd: folder, encoding: 'utf8' })
    assert.equal(stdout.trim(), revoked ? 'superseded' : 'good', stderr)
  })
}

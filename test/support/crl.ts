/** CRLs as others read them: @peculiar/x509 for what they say, openssl, GnuTLS and Python's cryptography for whether they hold. */

import '../unit/pki/support.ts'
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import * as x509 from '@peculiar/x509'
import { encodePem } from '../../src/pki/pem.ts'

export interface ReadCrl {
  number: bigint
  thisUpdate: Date
  nextUpdate: Date
  entries: { serial: string; revokedAt: Date; reason: number | undefined }[]
}

const CRL_NUMBER = '2.5.29.20'

export function readCrl(der: Buffer): ReadCrl {
  const crl = new x509.X509Crl(der)
  const number = crl.getExtension(CRL_NUMBER)
  assert.ok(number && crl.nextUpdate)
  return {
    // An INTEGER of one octet of length.
    number: BigInt(`0x${Buffer.from(number.value).subarray(2).toString('hex')}`),
    thisUpdate: crl.thisUpdate,
    nextUpdate: crl.nextUpdate,
    entries: crl.entries.map((entry) => ({
      serial: entry.serialNumber.toLowerCase().replace(/^00(?=[89a-f])/, ''),
      revokedAt: entry.revocationDate,
      reason: entry.reason,
    })),
  }
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
    const { status, stdout, stderr } = spawnSync(
      'openssl',
      [
        ...['verify', '-x509_strict', '-crl_check', '-no-CApath', '-no-CAstore', '-CAfile', rootFile],
        ...['-untrusted', 'issuer.pem', '-CRLfile', 'crl.pem', 'leaf.pem'],
      ],
      { cwd: folder, encoding: 'utf8' },
    )
    if (revoked) assert.match(stderr, /error 23 at 0 depth lookup: certificate revoked/)
    assert.equal(status === 0, !revoked, stdout + stderr)
  })
}

/** Judges the chain that a client was given by openssl and by node:crypto: path, names, purpose, key. */

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { isIP } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'

export interface ExpectedChain {
  chainPem: string
  rootFile: string
  /** The names of the subjectAltName, in any order. */
  names: readonly string[]
}

const PEM = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----\n?/g
const ID_KP_SERVER_AUTH = '1.3.6.1.5.5.7.3.1'
const ID_KP_CLIENT_AUTH = '1.3.6.1.5.5.7.3.2'

/** @returns the leaf. @throws AssertionError with what openssl said */
export function checkChain({ chainPem, rootFile, names }: ExpectedChain): X509Certificate {
  const [leafPem, ...issuers] = chainPem.match(PEM) ?? []
  assert.ok(leafPem && issuers.length > 0, 'the chain has a leaf and an issuer')
  verifyStrictly(leafPem, issuers, rootFile, names[0] ?? '')

  const leaf = new X509Certificate(leafPem)
  assert.deepEqual(
    (leaf.subjectAltName ?? '').split(', ').sort(),
    names.map((name) => `${isIP(name) === 0 ? 'DNS' : 'IP Address'}:${name}`).sort(),
  )
  assert.equal(leaf.ca, false)
  // node:crypto calls the extended key usage keyUsage.
  const usages = leaf.keyUsage
  assert.ok(usages.includes(ID_KP_SERVER_AUTH), 'good for servers')
  assert.ok(
    usages.every((usage) => usage === ID_KP_SERVER_AUTH || usage === ID_KP_CLIENT_AUTH),
    String(usages),
  )
  const now = Date.now()
  assert.ok(Date.parse(leaf.validFrom) <= now && Date.parse(leaf.validTo) > now)
  return leaf
}

function verifyStrictly(leaf: string, issuers: readonly string[], rootFile: string, name: string): void {
  const folder = mkdtempSync(path.join(tmpdir(), 'chancery-chain-'))
  try {
    const leafFile = path.join(folder, 'leaf.pem')
    const issuersFile = path.join(folder, 'issuers.pem')
    writeFileSync(leafFile, leaf)
    writeFileSync(issuersFile, issuers.join(''))
    const { status, stdout, stderr } = spawnSync(
      'openssl',
      [
        'verify',
        '-x509_strict',
        '-no-CApath',
        '-no-CAstore',
        '-CAfile',
        rootFile,
        '-untrusted',
        issuersFile,
        '-purpose',
        'sslserver',
        isIP(name) === 0 ? '-verify_hostname' : '-verify_ip',
        name,
        leafFile,
      ],
      { encoding: 'utf8' },
    )
    assert.equal(status, 0, stdout + stderr)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

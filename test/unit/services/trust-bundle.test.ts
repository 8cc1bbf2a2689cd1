import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { CaIssuer } from '../../../src/ca/backend.ts'
import { createTrustBundle, readRootsPem } from '../../../src/services/trust-bundle.ts'
import { type Authority, caIssuerOf, makeAuthority } from '../../signer/authority.ts'

const root = makeAuthority('P-256', { name: 'Root' })
const intermediate = makeAuthority('P-256', { name: 'Intermediate', by: root })
const other = makeAuthority('Ed25519', { name: 'Other root' })
const cross = makeAuthority('P-256', { name: 'Intermediate', by: other, keys: intermediate })
/** It has the name of its issuer, as in a change of keys (RFC 5280 §3.2), and is no root. */
const selfIssued = makeAuthority('P-256', { name: 'Root', by: root })

function issuerOf(id: string, chain: readonly Authority[], ...alternates: (readonly Authority[])[]): CaIssuer {
  const ders = (authorities: readonly Authority[]) => authorities.map(({ certificate }) => certificate)
  return caIssuerOf(chain[0]!, { id, chain: ders(chain), alternateChains: alternates.map(ders) })
}

const bundleOf = (issuers: readonly CaIssuer[], ...further: Authority[]) =>
  createTrustBundle(() => issuers, readRootsPem(further.map(({ certificatePem }) => certificatePem).join('')))()
const pemOf = (...authorities: Authority[]) => authorities.map(({ certificatePem }) => certificatePem).join('')

describe('the trust bundle', () => {
  test('has the root of a chain, and no intermediate', () => {
    const { pem, rootless } = bundleOf([issuerOf('a', [intermediate, root])])
    assert.deepEqual([pem, rootless], [pemOf(root), []])
  })

  test('has an issuer that is a root itself', () => assert.equal(bundleOf([issuerOf('a', [other])]).pem, pemOf(other)))

  test('has each root once, and not that of a CA which has cross-signed', () => {
    const issuers = [issuerOf('a', [intermediate, root], [cross, other]), issuerOf('b', [intermediate, root])]
    assert.equal(bundleOf(issuers).pem, pemOf(root))
  })

  test('names an issuer whose chain ends below its root, and has nothing of it', () => {
    const { pem, rootless } = bundleOf([issuerOf('a', [intermediate]), issuerOf('b', [other])])
    assert.deepEqual([pem, rootless], [pemOf(other), ['a']])
    assert.equal(bundleOf([issuerOf('a', [intermediate])]).pem, '')
  })

  test('does not take a self-issued certificate for a root', () => {
    const { pem, rootless } = bundleOf([issuerOf('a', [selfIssued])])
    assert.deepEqual([pem, rootless], ['', ['a']])
  })

  test('has the roots of the file, too, and knows whose they are', () => {
    const { pem, rootless } = bundleOf([issuerOf('a', [intermediate])], root, other)
    assert.deepEqual([pem, rootless], [pemOf(root, other), []])
    assert.deepEqual(bundleOf([issuerOf('a', [intermediate])], other).rootless, ['a'])
  })

  test('changes with the issuers, and its tag with it', () => {
    let issuers = [issuerOf('a', [intermediate, root])]
    const bundle = createTrustBundle(() => issuers, [])
    const before = bundle()
    assert.equal(bundle(), before)
    issuers = [...issuers, issuerOf('b', [other])]
    assert.equal(bundle().pem, pemOf(root, other))
    assert.notEqual(bundle().etag, before.etag)
  })
})

describe('a file with roots', () => {
  const leaf = makeAuthority('P-256', { name: 'Leaf', isCa: false })
  for (const [what, text, reason] of [
    ['an intermediate', pemOf(root, intermediate), /^certificate 2 in it is no root/],
    ['a certificate with the name of its issuer', pemOf(selfIssued), /^certificate 1 in it is no root/],
    ['a certificate of a server that has signed itself', pemOf(leaf), /^certificate 1 in it is no root/],
    ['a key', '-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n', /^it has a PRIVATE KEY$/],
  ] as const)
    test(`with ${what} is refused`, () => assert.throws(() => readRootsPem(text), { message: reason }))
})

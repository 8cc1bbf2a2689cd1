/** What a front thread knows of the roots, and when. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { CaIssuer } from '../../../src/ca/backend.ts'
import { createFrontRoots } from '../../../src/main/front/front-documents.ts'
import { makeAuthority } from '../../signer/authority.ts'
import { aConfig, type Tree } from '../config/support.ts'

const root = makeAuthority()
const other = makeAuthority('P-256', { name: 'Other' })
const { certificate } = root
const issuer = { id: 'a', certificate, chain: [certificate], alternateChains: [] } as unknown as CaIssuer
const serving = (tree: Tree = {}) => aConfig({ api: { roots_path: '/roots.pem' }, ...tree })

test('without a path no roots are served', () =>
  assert.equal(createFrontRoots(aConfig({}), { ca: { issuers: () => [issuer] } }, ''), undefined))

test('before the signer has named its issuers nothing is known, not even with a file', () => {
  let issuers: CaIssuer[] = []
  const roots = createFrontRoots(serving(), { ca: { issuers: () => issuers } }, other.certificatePem)!
  assert.equal(roots(), undefined)
  issuers = [issuer]
  assert.equal(roots()?.pem, root.certificatePem + other.certificatePem)
})

test('where no signer is used, the file is all', () => {
  const config = serving({ ca: { backend: 'external', external: { sign_url: 'https://ca.test/sign' } } })
  const roots = createFrontRoots(config, { ca: { issuers: () => [] } }, other.certificatePem)!
  assert.equal(roots()?.pem, other.certificatePem)
})

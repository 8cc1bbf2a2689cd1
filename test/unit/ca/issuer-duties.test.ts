/** Issuers with which the service would never be ready are refused, each with a sentence. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { requireUsableIssuers } from '../../../src/ca/signer-check.ts'
import { writeExtendedKeyUsage } from '../../../src/shared/pki/extensions.ts'
import { makeAuthority } from '../../signer/authority.ts'

const SERVER = { signsCrls: true, purposes: [['server_auth']] }
const forClients = makeAuthority('P-256', {
  name: 'Clients',
  more: (writer) => writeExtendedKeyUsage(writer, ['client_auth']),
})
const issuer = (...chain: ReturnType<typeof makeAuthority>[]) => [
  { id: 'default', chain: chain.map(({ certificate }) => certificate) },
]

describe('an issuer of the signer', () => {
  test('without cRLSign is refused where CRLs are published (RFC 5280 §4.2.1.3)', () => {
    const issuers = issuer(makeAuthority('P-256', { keyUsages: ['key_cert_sign'] }))
    assert.throws(() => requireUsableIssuers(issuers, SERVER), /issuer default cannot sign CRLs: .*lacks cRLSign/)
    requireUsableIssuers(issuers, { ...SERVER, signsCrls: false })
  })

  test('for client certificates only is refused where each profile is for servers (§4.2.1.12)', () => {
    assert.throws(() => requireUsableIssuers(issuer(forClients), SERVER), /issuer default is for client_auth only/)
    const below = makeAuthority('P-256', { name: 'Below', by: forClients })
    assert.throws(() => requireUsableIssuers(issuer(below, forClients), SERVER), /for client_auth only/)
    requireUsableIssuers(issuer(forClients), { ...SERVER, purposes: [['server_auth'], ['client_auth']] })
  })

  test('without limits is usable, also by a profile without purposes', () => {
    requireUsableIssuers(issuer(makeAuthority('P-256')), { ...SERVER, purposes: [[]] })
    requireUsableIssuers([], SERVER)
  })
})

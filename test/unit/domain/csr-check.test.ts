/** The CSR of a finalize request against its order (RFC 8555 §7.4). */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { type CsrPolicy, checkCsr, commonNameOf, requireLeafRequest } from '../../../src/domain/csr-check.ts'
import { csrProfileViolations, parseCsrProfile } from '../../../src/domain/csr-profile.ts'
import { parseCsr } from '../../../src/shared/pki/csr.ts'
import { DEFAULT_SUBJECT_KEY_POLICY } from '../../../src/shared/pki/weak-key.ts'
import type { Identifier } from '../../../src/shared/protocol/identifier.ts'
import {
  BASIC_CONSTRAINTS,
  dns,
  EXTENDED_KEY_USAGE,
  extension,
  hex,
  NULL,
  oid,
  SAN,
  sequence,
  text,
} from '../../corpus/der.ts'
import { attributes, keyUsage, microsoftRequest, requestAttribute, san, USUAL } from '../../corpus/requests.ts'
import { problemOf } from '../../support/refusals.ts'
import { ALL_KEYS, aCsr, ED25519_KEY, P256_KEY, P384_KEY, RSA_KEY, type TestKey, x509 } from '../shared/pki/support.ts'

const POLICY: CsrPolicy = {
  signatureAlgorithms: ['SHA256withRSA', 'SHA256withECDSA', 'SHA384withECDSA', 'SHA512withECDSA', 'Ed25519'],
  key: DEFAULT_SUBJECT_KEY_POLICY,
  keyTypes: ['RSA', 'P-256', 'P-384', 'P-521', 'Ed25519'],
}
const ACCOUNT_SPKI = P384_KEY.spki
const A: Identifier = { type: 'dns', value: 'a.example' }
const WILD: Identifier = { type: 'dns', value: '*.a.example' }
const IP: Identifier = { type: 'ip', value: '2001:db8::1' }

type Options = Parameters<typeof aCsr>[1]
const csrOf = async (options: Options = {}, key: TestKey = P256_KEY) => parseCsr(await aCsr(key, options))
const names = (...values: string[]): Options => ({
  names: values.map((value) => ({ type: value.includes(':') ? ('ip' as const) : ('dns' as const), value })),
})

for (const key of ALL_KEYS.filter(({ label }) => label !== 'P-384'))
  test(`a ${key.label} key that its profile has is accepted`, async () =>
    checkCsr(await csrOf({}, key), [A], ACCOUNT_SPKI, POLICY))

const accepted: [why: string, options: Options, order: Identifier[]][] = [
  ['a name twice', names('a.example', 'A.example'), [A]],
  ['names in another order and case', names('*.A.example', 'a.EXAMPLE'), [A, WILD]],
  ['an address in another spelling', names('2001:db8:0::1'), [IP]],
  ['a common name that the SAN repeats', { ...names('a.example'), subject: 'CN=A.example' }, [A]],
  ['a name that only the common name has', { names: [], subject: 'CN=a.example' }, [A]],
  ['an address as common name', { names: [], subject: 'CN=2001:db8::1' }, [IP]],
  ['other attributes of the subject, which are ignored', { ...names('a.example'), subject: 'O=Example, C=DE' }, [A]],
]
for (const [why, options, order] of accepted)
  test(`${why} is accepted`, async () => checkCsr(await csrOf(options), order, ACCOUNT_SPKI, POLICY))

const key = DEFAULT_SUBJECT_KEY_POLICY
type Asked = { order?: Identifier[]; key?: TestKey; policy?: Partial<CsrPolicy> }
/** The request is for `a.example`, as the order is. */
const refused: [why: string, detail: RegExp, options: Options, asked?: Asked][] = [
  ['no name', /lacks a\.example/, { names: [] }],
  ['a name less', /lacks \*\.a\.example/, {}, { order: [A, WILD] }],
  ['the wildcard in place of the name', /lacks/, names('*.a.example')],
  ['an address more', /order has not 2001:db8::1$/, names('a.example', '2001:db8::1')],
  ['the account key', /account key/, {}, { key: P384_KEY }],
  ['a key type that the profile has not', /Ed25519/, {}, { key: ED25519_KEY, policy: { keyTypes: ['P-256'] } }],
  [
    'a signature algorithm that is not allowed',
    /SHA256withRSA/,
    {},
    { key: RSA_KEY, policy: { signatureAlgorithms: ['SHA256withECDSA'] } },
  ],
  ['an RSA key under the minimum', /2048/, {}, { key: RSA_KEY, policy: { key: { ...key, rsaMinBits: 3072 } } }],
  ['a curve that is not allowed', /P-256/, {}, { policy: { key: { ...key, curves: ['P-384'] } } }],
]
for (const [why, detail, options, { order = [A], key, policy } = {}] of refused)
  test(`a CSR with ${why} is badCSR`, async () => {
    const csr = await csrOf(options, key)
    assert.throws(() => checkCsr(csr, order, ACCOUNT_SPKI, { ...POLICY, ...policy }), problemOf('badCSR', detail))
  })

test('a CSR that its own key did not sign is badCSR', async () => {
  const csr = await csrOf()
  const other = await csrOf({}, P256_KEY)
  other.signature = Buffer.from(csr.signature)
  other.signature[10] = (other.signature[10] as number) ^ 1
  assert.throws(() => checkCsr(other, [A], ACCOUNT_SPKI, POLICY), /signature/)
})

test('the common name is the first one asked for that fits 64 characters', async () => {
  const long = `${'a'.repeat(60)}.example`
  assert.equal(commonNameOf(await csrOf({ subject: 'CN=B.example' })), 'b.example')
  assert.equal(commonNameOf(await csrOf({ subject: '' })), undefined)
  assert.equal(commonNameOf(await csrOf({ subject: 'CN=#3003020105' })), undefined, 'a SEQUENCE names nothing')
  assert.equal(commonNameOf(await csrOf({ subject: 'CN=., CN=b.example' })), 'b.example', 'a dot names nothing')
  assert.equal(commonNameOf(await csrOf({ subject: `CN=${long}` })), undefined)
  assert.equal(commonNameOf(await csrOf({ subject: `CN=${long}, CN=b.example` })), 'b.example')
})

test('a CSR that asks for what only CA certificates have is not for another CA', async () => {
  const profile = { extendedKeyUsages: ['server_auth'] }
  const asking = async (...extensions: x509.Extension[]) => csrOf({ ...names('a.example'), extensions })
  const rows: [x509.Extension, RegExp][] = [
    [new x509.BasicConstraintsExtension(true), /cA in basicConstraints/],
    [new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign), /key_cert_sign/],
    [new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature | x509.KeyUsageFlags.cRLSign), /crl_sign/],
    [new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.ocspSigning]), /ocsp_signing/],
    [new x509.Extension('2.5.29.30', true, Buffer.from('3000', 'hex')), /2\.5\.29\.30/],
  ]
  for (const [extension, detail] of rows) {
    const csr = await asking(extension)
    assert.throws(() => requireLeafRequest(csr, profile), problemOf('badCSR', detail))
  }
  const leafs = [
    new x509.BasicConstraintsExtension(false),
    // Not DER, and written by some: FALSE as it is the default.
    new x509.Extension('2.5.29.19', true, Buffer.from('3003010100', 'hex')),
    new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature),
    new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.clientAuth]),
  ]
  for (const extension of leafs) requireLeafRequest(await asking(extension), profile)
  const responder = await asking(new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.ocspSigning]))
  requireLeafRequest(responder, { extendedKeyUsages: ['ocsp_signing'] })
})

describe('a CSR with further extension requests', () => {
  const further: [where: string, place: (...extensions: Buffer[]) => Buffer][] = [
    ["under Microsoft's OID", (...list) => attributes(USUAL, microsoftRequest(...list))],
    [
      'under it twice, without the standard one',
      (...list) => attributes(microsoftRequest(...list), microsoftRequest(san(dns('a.example')))),
    ],
    [
      'in a second value',
      (...list) => attributes(requestAttribute(sequence(san(dns('a.example'))), sequence(...list))),
    ],
  ]
  const profile = { extendedKeyUsages: ['server_auth'] }
  const signing = keyUsage('03020106')
  for (const [where, place] of further) {
    const refusedElsewhere: [what: string, asked: Buffer, detail: RegExp][] = [
      ['cA', extension(BASIC_CONSTRAINTS, hex('30030101ff')), /cA in basicConstraints$/],
      ['keyCertSign', signing, /key_cert_sign, crl_sign$/],
      ['any purpose', extension(EXTENDED_KEY_USAGE, sequence(oid('551d2500'))), /2\.5\.29\.37\.0$/],
      ['name constraints', extension(oid('551d1e'), hex('3000')), /2\.5\.29\.30$/],
      [
        'another name',
        san(dns('a.example'), dns('b.example')),
        /^a further extension request of the CSR names b\.example/,
      ],
      ['its name as an e-mail address', san(text(0x81, 'a.example')), /names a\.example/],
      ['an e-mail address', san(text(0x81, 'a@b.example')), /names a@b\.example/],
      ['a SAN that cannot be read', extension(SAN, NULL), /unreadable$/],
      ['no list of extensions', NULL, /unreadable$/],
    ]
    for (const [what, asked, detail] of refusedElsewhere)
      test(`${where} that asks for ${what} is not for another CA`, () => {
        const csr = parseCsr(place(asked))
        checkCsr(csr, [A], ACCOUNT_SPKI, POLICY)
        assert.throws(() => requireLeafRequest(csr, profile), problemOf('badCSR', detail))
      })

    test(`${where} that repeats the name and asks for usages of a leaf is for any CA`, () => {
      const csr = parseCsr(place(san(dns('A.example')), keyUsage('03020780')))
      checkCsr(csr, [A], ACCOUNT_SPKI, POLICY)
      requireLeafRequest(csr, profile)
      assert.deepEqual(csr.keyUsages, ['digital_signature'])
    })

    test(`${where} is judged by the usages that a CSR profile authorizes`, () => {
      const data = parseCsrProfile({ authorized_key_usages: ['digital_signature'] })
      assert.deepEqual(csrProfileViolations(parseCsr(place(signing)), data), [
        'key usage key_cert_sign is not authorized',
        'key usage crl_sign is not authorized',
      ])
      assert.deepEqual(csrProfileViolations(parseCsr(place(NULL)), data), ['key usage unreadable is not authorized'])
    })
  }

  test('of two that contradict each other is judged by both', () => {
    const request = (usage: string, isCa: string) => sequence(keyUsage(usage), extension(BASIC_CONSTRAINTS, hex(isCa)))
    const csr = parseCsr(attributes(requestAttribute(request('03020780', '3000'), request('03020106', '30030101ff'))))
    assert.deepEqual(csr.keyUsages, ['digital_signature', 'key_cert_sign', 'crl_sign'])
    assert.equal(csr.isCaRequested, true)
  })
})

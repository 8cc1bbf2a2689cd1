/** What a certificate from another CA must be before anybody sees it. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import {
  type Accepted,
  checkAlternateChain,
  checkReceived,
  type Expected,
} from '../../../src/domain/received-certificate.ts'
import { parseTbsCertificate } from '../../../src/shared/pki/certificate.ts'
import type { DerWriter } from '../../../src/shared/pki/der-writer.ts'
import { writeCertificatePolicies, writeExtendedKeyUsage, writeKeyUsage } from '../../../src/shared/pki/extensions.ts'
import { CA_EXTENSION, EXTENSION, SCT_LIST } from '../../../src/shared/pki/oids.ts'
import { buildTbsCertificate, type TbsCertificateInput } from '../../../src/shared/pki/tbs-certificate.ts'
import {
  type Authority,
  constraintsOn,
  DAY_MS,
  leafInput,
  makeAuthority,
  makeKeyPair,
  signedBy,
  spkiOf,
} from '../../signer/authority.ts'
import { type RawTbsChanges, rawExtension, rawName, rawTbs, type WritePart } from '../../signer/raw-tbs.ts'

const root = makeAuthority()
/** Of the same name, so that only the signature tells them apart. */
const other = makeAuthority()
const noCa = makeAuthority('P-256', { isCa: false })
const expired = makeAuthority('P-256', { daysAhead: -1 })
const notForCertificates = makeAuthority('P-256', { keyUsages: ['crl_sign'] })
const narrow = makeAuthority('P-256', { name: 'Narrow', by: root, pathLength: 0 })
const belowNarrow = makeAuthority('P-256', { name: 'Below', by: narrow })
const narrowRoot = makeAuthority('P-256', { pathLength: 0 })
const belowNarrowRoot = makeAuthority('P-256', { name: 'Below', by: narrowRoot })
const now = new Date()

const more = (name: string, write: WritePart | undefined): RawTbsChanges => ({ extensions: { [name]: write } })

function leaf(changes: Partial<TbsCertificateInput> = {}, by: Authority = root): Buffer {
  return signedBy(by, buildTbsCertificate(leafInput(by, changes)))
}

const expected: Expected = {
  spki: parseTbsCertificate(buildTbsCertificate(leafInput(root))).spki.der,
  identifiers: [{ type: 'dns', value: 'www.example.org' }],
  maxValidityDays: 90,
  requested: {},
  keyUsages: ['digital_signature'],
  extendedKeyUsages: ['server_auth'],
  policyOids: [],
  accepted: { subjectAttributes: ['CN'], keyPurposes: [], extensions: [], policyOids: [] },
  trustAnchors: [root.certificate],
  refusesLint: false,
  now,
}
const soon = (days: number) => new Date(Math.floor(now.getTime() / 1000) * 1000 + days * DAY_MS)

function findings(chain: readonly Buffer[], more: Partial<Expected> = {}): readonly string[] {
  const verdict = checkReceived(chain, { ...expected, ...more })
  return verdict.ok ? [] : verdict.findings
}

describe('a received certificate', () => {
  test('is taken with its chain, with the root, without it, and where the root itself has signed', () => {
    assert.deepEqual(findings([leaf(), root.certificate]), [])
    assert.deepEqual(findings([leaf()]), [])
    assert.deepEqual(findings([leaf(), root.certificate], { trustAnchors: [] }), [])
    const verdict = checkReceived([leaf()], expected)
    assert.ok(verdict.ok && verdict.received.issuers[0].equals(root.certificate))
  })

  test('may have names in another case, and addresses', () => {
    const identifiers = [...expected.identifiers, { type: 'ip' as const, value: '192.0.2.1' }]
    assert.deepEqual(findings([leaf({ ipAddresses: ['192.0.2.1'] })], { identifiers }), [])
  })

  const ANY_ROOT = { trustAnchors: [] }
  const wrong: readonly (readonly [string, () => readonly Buffer[], RegExp, Partial<Expected>?])[] = [
    ['an empty chain', () => [], /chain is empty/],
    ['no DER', () => [Buffer.from('no')], /cannot be read/],
    ['eleven certificates', () => Array.from({ length: 11 }, () => root.certificate), /10 are the most/],
    ['another key', () => [leaf({ spki: spkiOf(makeKeyPair('P-256').publicKey) })], /key is not that of the CSR/],
    ['a further name', () => [leaf({ dnsNames: ['www.example.org', 'extra.org'] })], /order has not: dns:extra.org/],
    [
      'a missing name',
      () => [leaf()],
      /lacks names of the order: dns:b.example/,
      { identifiers: [...expected.identifiers, { type: 'dns', value: 'b.example' }] },
    ],
    ['a common name that was not ordered', () => [leaf({ commonName: 'evil.example' })], /order has not: evil.example/],
    ['a wildcard in place of a name', () => [leaf({ dnsNames: ['*.example.org'] })], /order has not/],
    ['a start in the future', () => [leaf({ notBefore: soon(1), notAfter: soon(10) })], /not valid before/],
    ['an end in the past', () => [leaf({ notBefore: soon(-3), notAfter: soon(-1) })], /has expired/],
    ['too long a time', () => [leaf()], /more than 80 days/, { maxValidityDays: 80 }],
    [
      'a key purpose that its profile lacks',
      () => [leaf({ extendedKeyUsages: ['server_auth', 'code_signing'] })],
      /key purpose code_signing/,
    ],
    ['another issuer of the same name', () => [leaf({}, other), root.certificate], /no issuer/],
    ['another root', () => [leaf({}, other), other.certificate], /trust_anchors/],
    ['a leaf without issuer', () => [leaf({}, other)], /no issuer/],
    ['an issuer that is no CA', () => [leaf({}, noCa), noCa.certificate], /no CA certificate/, ANY_ROOT],
    ['an issuer that has expired', () => [leaf({}, expired), expired.certificate], /not valid now/, ANY_ROOT],
    // RFC 5280 §6.1.4 (n)
    [
      'an issuer whose key may not sign certificates',
      () => [leaf({}, notForCertificates), notForCertificates.certificate],
      /certificate 2 of the chain may not sign certificates/,
      ANY_ROOT,
    ],
    // RFC 5280 §6.1.4, max_path_length
    [
      'a chain that is longer than one of its issuers allows',
      () => [leaf({}, belowNarrow), belowNarrow.certificate, narrow.certificate, root.certificate],
      /certificate 3 of the chain allows 0 CA certificates below it, and has 1/,
    ],
    [
      'a chain that is longer than a root allows which was not sent',
      () => [leaf({}, belowNarrowRoot), belowNarrowRoot.certificate],
      /certificate 3 of the chain allows 0 CA certificates/,
      { trustAnchors: [narrowRoot.certificate] },
    ],
  ]
  for (const [name, chain, finding, more] of wrong)
    test(`is refused for ${name}`, () => assert.match(findings(chain(), more).join('; '), finding))

  const hex = (text: string) => Buffer.from(text, 'hex')
  const usages = (...names: Parameters<typeof writeKeyUsage>[1]) =>
    more('keyUsage', (writer) => writeKeyUsage(writer, names))
  const purposes = (...names: Parameters<typeof writeExtendedKeyUsage>[1]) =>
    more('extendedKeyUsage', (writer) => writeExtendedKeyUsage(writer, names))
  /** What a CA may copy from the client's CSR, or add or leave out by itself (RFC 8555 §7.4). */
  const content: readonly (readonly [string, RawTbsChanges, RegExp, Partial<Accepted>?])[] = [
    [
      'an organization',
      { subject: rawName(['2.5.4.10', 'Example']) },
      /subject attribute O,.*accepted\.subject_attributes/,
      { subjectAttributes: ['O'] },
    ],
    [
      'a mail address in its subject',
      { subject: rawName(['1.2.840.113549.1.9.1', 'a@b.test']) },
      /subject attribute 1\.2\.840\.113549\.1\.9\.1/,
      { subjectAttributes: ['1.2.840.113549.1.9.1'] },
    ],
    [
      'a common name that is no text',
      // BIT STRING: readers that make text of it read `evil.test`.
      { subject: hex('3015311330110603550403030a006576696c2e74657374') },
      /names that the order has not: a common name that is no text/,
    ],
    [
      'the key usages of a CA',
      usages('digital_signature', 'key_cert_sign', 'crl_sign'),
      /key usage key_cert_sign.*key usage crl_sign/,
    ],
    ['a usage beyond its profile', usages('digital_signature', 'content_commitment'), /key usage content_commitment/],
    ['no key usage', more('keyUsage', undefined), /no key usage/],
    ['no key purpose', more('extendedKeyUsage', undefined), /none of the key purposes of its profile: server_auth/],
    [
      'another key purpose than its profile',
      purposes('client_auth'),
      /key purpose client_auth.*none of the key purposes/,
    ],
    [
      'a further key purpose, as public CAs add it',
      purposes('server_auth', 'client_auth'),
      /key purpose client_auth/,
      { keyPurposes: ['client_auth'] },
    ],
    [
      'the SID of a Windows user',
      more('sid', rawExtension('1.3.6.1.4.1.311.25.2', false, hex('3000'))),
      /extension 1\.3\.6\.1\.4\.1\.311\.25\.2,.*accepted\.extensions/,
      { extensions: ['1.3.6.1.4.1.311.25.2'] },
    ],
    [
      'a policy of extended validation',
      more('policies', (writer) => writeCertificatePolicies(writer, ['2.23.140.1.1'])),
      /certificate policy 2\.23\.140\.1\.1/,
      { policyOids: ['2.23.140.1.1'] },
    ],
    [
      'the answer to a challenge',
      more('acme', rawExtension(EXTENSION.acmeIdentifier, false, hex('0400'))),
      /extension 1\.3\.6\.1\.5\.5\.7\.1\.31/,
    ],
    [
      'a path length',
      more('basicConstraints', rawExtension(EXTENSION.basicConstraints, true, hex('3003020100'))),
      /CA certificate/,
    ],
  ]
  for (const [what, changes, finding, allowed] of content)
    test(`is refused for ${what}${allowed ? ', unless its backend allows it by name' : ''}`, () => {
      const chain = [signedBy(root, rawTbs(root, changes)), root.certificate]
      assert.match(findings(chain).join('; '), finding)
      if (allowed) assert.deepEqual(findings(chain, { accepted: { ...expected.accepted, ...allowed } }), [])
    })

  test('may have timestamps of logs, the usual usages of other keys, and the policies of the configuration', () => {
    const changes = {
      extensions: {
        keyUsage: (writer: DerWriter) => writeKeyUsage(writer, ['digital_signature', 'key_agreement']),
        timestamps: rawExtension(SCT_LIST, false, Buffer.from('0400', 'hex')),
        policies: (writer: DerWriter) => writeCertificatePolicies(writer, ['1.2.3.4', '1.2.3.5']),
      },
    }
    const allowed = { policyOids: ['1.2.3.4'], accepted: { ...expected.accepted, policyOids: ['1.2.3.5'] } }
    assert.deepEqual(findings([signedBy(root, rawTbs(root, changes))], allowed), [])
    const none = rawTbs(root, { extensions: { keyUsage: undefined, extendedKeyUsage: undefined } })
    assert.deepEqual(findings([signedBy(root, none)], { keyUsages: [], extendedKeyUsages: [] }), [])
  })

  // RFC 5280 §6.1.3 (b) and (c), §6.1.4 (g).
  test('has names that every CA above it may certify', () => {
    const corpRoot = makeAuthority('P-256', { constraints: constraintsOn({ dns: ['corp.test'] }) })
    const below = makeAuthority('P-256', {
      name: 'Below',
      by: corpRoot,
      constraints: constraintsOn({}, { dns: ['secret.corp.test'] }),
    })
    const judged = (name: string) =>
      findings([leaf({ dnsNames: [name] }, below), below.certificate], {
        identifiers: [{ type: 'dns', value: name }],
        trustAnchors: [corpRoot.certificate],
      }).join()
    assert.equal(judged('www.corp.test'), '')
    assert.match(judged('x.lab.test'), /name constraints forbid a name of certificate 1: x\.lab\.test is outside/)
    assert.match(judged('b.secret.corp.test'), /b\.secret\.corp\.test reaches into an excluded subtree/)
  })

  // RFC 5280 §6.1.4 (o): what is critical and not processed ends the path.
  test('comes by a chain without critical extensions that are not known, and with readable name constraints', () => {
    const policyConstraints = rawExtension('2.5.29.36', true, Buffer.from('3003800100', 'hex'))
    const odd = makeAuthority('P-256', { more: policyConstraints })
    const judged = (authority: Authority) =>
      findings([leaf({}, authority)], { trustAnchors: [authority.certificate] }).join()
    assert.match(judged(odd), /critical extension 2\.5\.29\.36 of certificate 2 of the chain is not known/)
    const broken = makeAuthority('P-256', {
      more: rawExtension(CA_EXTENSION.nameConstraints, true, Buffer.of(0x30, 0)),
    })
    assert.match(judged(broken), /cannot be read: NameConstraints is empty/)
  })

  test('is found with its path in what a CA sends: in any order, twice, without issuers that are configured', () => {
    const below = makeAuthority('P-256', { name: 'Below', by: root })
    const one = leaf({}, below)
    for (const [sent, trustAnchors] of [
      [[root.certificate, below.certificate, one], [root.certificate]],
      [[one, one, below.certificate, below.certificate], [root.certificate]],
      [[one, other.certificate, below.certificate], [root.certificate]],
      [[one], [below.certificate, root.certificate]],
    ] as const) {
      const verdict = checkReceived(sent, { ...expected, trustAnchors })
      assert.ok(verdict.ok, JSON.stringify(verdict))
      assert.deepEqual(verdict.received.leaf.der, one)
      assert.deepEqual(verdict.received.issuers[0], below.certificate)
    }
  })

  test('may come from an issuer that limits the chain to what it is, or names no usage of its key', () => {
    assert.deepEqual(findings([leaf({}, narrow), narrow.certificate, root.certificate]), [])
    assert.deepEqual(findings([leaf({}, narrow), narrow.certificate]), [])
    const anyUsage = makeAuthority('P-256', { keyUsages: [] })
    assert.deepEqual(findings([leaf({}, anyUsage)], { trustAnchors: [anyUsage.certificate] }), [])
    // RFC 5280 §6.1.4 (l): a self-issued certificate, as of a new key, does not count.
    const renewed = makeAuthority('P-256', { name: 'Narrow', by: narrow })
    assert.deepEqual(findings([leaf({}, renewed), renewed.certificate, narrow.certificate]), [])
  })

  // RFC 8555 §7.4: no content other than that requested.
  test('has the period that the client has requested, as far as its issuer lasts', () => {
    const [start, end] = [soon(1), soon(10)]
    const [notBefore, notAfter] = [start, end]
    assert.deepEqual(findings([leaf({ notBefore, notAfter })], { requested: { notBefore, notAfter } }), [])
    assert.match(findings([leaf()], { requested: { notBefore } }).join(), /it begins at .*as requested/)
    assert.match(findings([leaf({ notAfter: soon(9) })], { requested: { notAfter } }).join(), /it ends at/)
    assert.match(findings([leaf({ notAfter: soon(11) })], { requested: { notAfter } }).join(), /it ends at/)
    const long = { requested: { notAfter: new Date(root.notAfter.getTime() + DAY_MS) }, maxValidityDays: 9_999 }
    assert.deepEqual(findings([leaf({ notAfter: root.notAfter })], long), [])
    assert.match(findings([leaf({ notAfter })], long).join(), /it ends at/)
  })

  test('is refused or warned about for a finding of the lint', () => {
    const short = [leaf({ serialNumber: Buffer.of(1) })]
    assert.match(findings(short, { refusesLint: true }).join(), /serial number is shorter/)
    const verdict = checkReceived(short, expected)
    assert.ok(verdict.ok)
    assert.match(verdict.received.warnings.join(), /serial number is shorter/)
  })

  test('has alternate chains only where they fit it', () => {
    assert.equal(checkAlternateChain(leaf(), [root.certificate], expected), true)
    assert.equal(checkAlternateChain(leaf(), [other.certificate], expected), false)
    assert.equal(checkAlternateChain(leaf(), [], expected), false)
    const tooLong = [belowNarrow.certificate, narrow.certificate]
    assert.equal(checkAlternateChain(leaf({}, belowNarrow), tooLong, expected), false)
  })
})

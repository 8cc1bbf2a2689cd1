/** What the daemon refuses to sign as a CRL, whatever the front asks for (RFC 5280 §5). */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { parseConfig } from '../../../signer/config.ts'
import { CrlExamination, type CrlFacts } from '../../../signer/crl-uploads.ts'
import { compilePolicy } from '../../../signer/policy.ts'
import { SignerRefusal } from '../../../signer/protocol/signer-errors.ts'
import { writeAuthorityKeyIdentifier } from '../../../src/shared/pki/extensions.ts'
import { EMPTY_NAME, encodeCommonName } from '../../../src/shared/pki/name.ts'
import { CRL_EXTENSION } from '../../../src/shared/pki/oids.ts'
import { der, hex, sequence, text } from '../../corpus/der.ts'
import { type Authority, makeAuthority } from '../../signer/authority.ts'
import { rawExtension, type WritePart } from '../../signer/raw-tbs.ts'
import { now, type RawListChanges, rawEntry, rawTbsList, reasonCode } from '../../signer/raw-tbs-list.ts'
import { errorOf } from '../../support/refusals.ts'

const authority = makeAuthority('P-256')
const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

interface Examining {
  policyYaml?: string
  maySignCrls?: boolean
  announced?: number
  by?: Authority
}

function examine(tbs: Buffer, options: Examining = {}) {
  const { policyYaml = '{}', maySignCrls = true, announced = tbs.length, by = authority } = options
  const text = `socket: s\nsecret_file: s\naudit: { file: a }\nissuers: [{ id: x, certificate: c, key: { file: k }, policy: ${policyYaml} }]`
  const { algorithm: signatureAlgorithm } = by
  const policy = compilePolicy(parseConfig(text, 'test').issuers[0]!.policy, {
    ...by,
    signatureAlgorithm,
    maySignCrls,
    constraints: [],
    purposes: [],
  })
  const examination = new CrlExamination(policy, new Date(), announced, () => false)
  examination.push(tbs)
  return examination.finish()
}

const DELTA_CRL_INDICATOR = '2.5.29.27'
const INVALIDITY_DATE = '2.5.29.24'

const namedBy = (urls: readonly string[], ...more: readonly Buffer[]) =>
  der(0xa0, der(0xa0, ...urls.map((url) => text(0x86, url)), ...more))
const idp = (urls: readonly string[], { critical = true, more = hex('') } = {}) =>
  extension(
    'idp',
    CRL_EXTENSION.issuingDistributionPoint,
    critical,
    sequence(...(urls.length > 0 ? [namedBy(urls)] : []), more),
  )
const extension = (name: string, oid: string, critical: boolean, value: Buffer): RawListChanges => ({
  extensions: { [name]: rawExtension(oid, critical, value) },
})
const one = (name: string, write: WritePart | undefined): RawListChanges => ({ extensions: { [name]: write } })
const CRL_TEST = '{ crl_urls: ["http://crl.test/"] }'
const entry = (...parts: Parameters<typeof rawEntry>): RawListChanges => ({ entries: rawEntry(...parts) })
const serial = (content: string) => entry({ serial: hex(content) })
const secondsNow = (daysLater: number) => BigInt(now(daysLater * DAY_MS).getTime() / 1000)
const ONLY_USER_CERTIFICATES = hex('8101ff')

const REFUSED: readonly (readonly [what: string, changes: RawListChanges, sentence: RegExp, policyYaml?: string])[] = [
  ['another issuer', { issuer: encodeCommonName('Somebody') }, /issuer name/],
  ['an empty issuer', { issuer: EMPTY_NAME }, /issuer name/],
  ['an algorithm of another kind of key', { algorithm: 'SHA256withRSA' }, /none of the issuer's key/],
  ['version 1', { version: undefined }, /version is 1/],
  ['version 3', { version: 3 }, /version is 3/],
  ['no nextUpdate', { nextUpdate: undefined }, /nextUpdate is missing/],
  ['nextUpdate before thisUpdate', { nextUpdate: now(-HOUR_MS) }, /not after thisUpdate/],
  [
    'a list for the future',
    { thisUpdate: now(HOUR_MS), nextUpdate: now(DAY_MS) },
    /thisUpdate is 3[56]\d\d s ahead of the clock of the signer/,
  ],
  ['a list from yesterday', { thisUpdate: now(-DAY_MS) }, /thisUpdate is 864\d\d s behind the clock of the signer/],
  ['a list that lives too long', { nextUpdate: now(33 * DAY_MS) }, /after thisUpdate; 2764800 s/],
  ['one that lives longer than configured', {}, /86400 s after thisUpdate; 43200/, '{ max_crl_validity_days: 0.5 }'],
  ['empty revokedCertificates', { entries: Buffer.alloc(0) }, /empty instead of absent/],
  [
    'no extensions',
    { extensions: { authorityKeyIdentifier: undefined, crlNumber: undefined } },
    /authorityKeyIdentifier/,
  ],
  ['no authorityKeyIdentifier', one('authorityKeyIdentifier', undefined), /authorityKeyIdentifier/],
  [
    'the key identifier of another issuer',
    one('authorityKeyIdentifier', (writer) => writeAuthorityKeyIdentifier(writer, Buffer.alloc(20, 1))),
    /not the key identifier/,
  ],
  ['no number', one('crlNumber', undefined), /cRLNumber is missing/],
  ['a negative number', extension('crlNumber', CRL_EXTENSION.crlNumber, false, hex('0201ff')), /negative/],
  ['a number that is not minimal', extension('crlNumber', CRL_EXTENSION.crlNumber, false, hex('02020001')), /minimal/],
  ['a critical number', extension('crlNumber', CRL_EXTENSION.crlNumber, true, hex('020107')), /is critical/],
  ['a number of 21 octets', { number: 2n ** 160n }, /more than 20 octets/],
  ['a number that stands twice', extension('again', CRL_EXTENSION.crlNumber, false, hex('020107')), /stands twice/],
  ['a delta CRL', extension('delta', DELTA_CRL_INDICATOR, true, hex('020101')), /not one of a complete list/],
  ['an unknown extension', extension('other', '1.3.6.1.4.1.99999.1', false, hex('0500')), /not one of a complete list/],
  [
    'an unknown critical extension',
    extension('other', '1.3.6.1.4.1.99999.1', true, hex('0500')),
    /not one of a complete list/,
  ],
  [
    'a critical authorityKeyIdentifier',
    extension(
      'authorityKeyIdentifier',
      CRL_EXTENSION.authorityKeyIdentifier,
      true,
      Buffer.concat([hex('30168014'), authority.keyIdentifier]),
    ),
    /is critical/,
  ],
  [
    'an authorityKeyIdentifier without a key',
    extension('authorityKeyIdentifier', CRL_EXTENSION.authorityKeyIdentifier, false, hex('3000')),
    /names no key/,
  ],
  ['number without octets', extension('crlNumber', CRL_EXTENSION.crlNumber, false, hex('0200')), /not a TBSCertList/],
  ['a distribution point that is not critical', idp(['http://crl.test/1'], { critical: false }), /not critical/],
  ['a distribution point without URL', idp([]), /names no URL/],
  [
    'a distribution point with a directoryName beside its URL',
    extension(
      'idp',
      CRL_EXTENSION.issuingDistributionPoint,
      true,
      sequence(namedBy(['http://crl.test/1'], hex('a4023000'))),
    ),
    /named by URLs alone/,
    CRL_TEST,
  ],
  [
    'an authorityKeyIdentifier with more than that',
    extension(
      'authorityKeyIdentifier',
      CRL_EXTENSION.authorityKeyIdentifier,
      false,
      Buffer.concat([hex('30198014'), authority.keyIdentifier, hex('820101')]),
    ),
    /authorityKeyIdentifier holds more than/,
  ],
  ['a certificate twice', { entries: Buffer.concat([rawEntry(), rawEntry()]) }, /entry 2: .* stands twice/],
  [
    'a certificate twice among others, for two reasons',
    {
      entries: Buffer.concat([
        rawEntry({ extensions: [reasonCode(1)] }),
        rawEntry({ serial: hex('41') }),
        rawEntry({ extensions: [reasonCode(4)] }),
      ]),
    },
    /entry 3: .* stands twice/,
  ],
  ['a list of user certificates only', idp(['http://crl.test/1'], { more: ONLY_USER_CERTIFICATES }), /restricts more/],
  ['a distribution point elsewhere', idp(['http://evil.test/1']), /evil\.test\/1 is not allowed/, CRL_TEST],
  ['a negative serial number', serial('ff'), /serial number is negative/],
  ['serial number zero', serial('00'), /serial number is zero/],
  ['a serial number of 21 octets', serial(`41${'00'.repeat(20)}`), /more than 20 octets/],
  ['a serial number that is not minimal', serial('0001'), /not minimal/],
  ['a revocation after thisUpdate', entry({ revokedAt: now(60_000) }), /after thisUpdate/],
  ['removeFromCRL', entry({ extensions: [reasonCode(8)] }), /reason 8/],
  ['reason 7', entry({ extensions: [reasonCode(7)] }), /reason 7/],
  ['unspecified, written out', entry({ extensions: [reasonCode(0)] }), /reason 0/],
  ['reason 11', entry({ extensions: [reasonCode(11)] }), /reason 11/],
  ['a critical reason', entry({ extensions: [reasonCode(1, true)] }), /critical/],
  [
    'an unknown entry extension',
    entry({ extensions: [rawExtension(INVALIDITY_DATE, false, hex('180f32303235303130313030303030305a'))] }),
    /entry extension 2\.5\.29\.24/,
  ],
  ['an entry that is no entry', { entries: hex('0500') }, /not a TBSCertList/],
  ['an entry of 20,000 octets', { entries: Buffer.concat([hex('30824e20'), Buffer.alloc(20_000)]) }, /too long/],
  ['bytes behind the extensions', { tail: hex('0500') }, /at its end/],
]

describe('CRLs that the signer refuses', () => {
  for (const [what, changes, sentence, policyYaml] of REFUSED)
    test(what, () =>
      assert.throws(
        () => examine(rawTbsList(authority, changes), { ...(policyYaml !== undefined && { policyYaml }) }),
        errorOf(SignerRefusal, sentence),
      ),
    )

  const whole = rawTbsList(authority)
  const reheaded = (...length: number[]) => Buffer.concat([Buffer.from([0x30, ...length]), whole.subarray(4)])
  const BADLY_FRAMED: [what: string, tbs: Buffer, announced: number | undefined, sentence: RegExp][] = [
    ['a list that is longer than announced', whole, whole.length - 1, /not the \d+ announced/],
    ['a list that is shorter than announced', whole, whole.length + 1, /not the \d+ announced/],
    ['a list that is cut off', whole.subarray(0, -1), whole.length, /cut off/],
    ['bytes behind the list', Buffer.concat([whole, Buffer.of(0)]), whole.length, /at its end/],
    ['a length that is not minimal', reheaded(0x83, 0, ...whole.subarray(2, 4)), undefined, /not minimal/],
    ['an indefinite length', reheaded(0x80), undefined, /indefinite/],
  ]
  for (const [what, tbs, announced = tbs.length, sentence] of BADLY_FRAMED)
    test(what, () => assert.throws(() => examine(tbs, { announced }), sentence))

  test('any list, when the key usage of the issuer does not have cRLSign (RFC 5280 §4.2.1.3)', () =>
    assert.throws(() => examine(rawTbsList(authority), { maySignCrls: false }), /key usage/))
})

describe('CRLs that the signer accepts', () => {
  const facts = (changes: RawListChanges, policyYaml?: string): CrlFacts =>
    examine(rawTbsList(authority, changes), { ...(policyYaml !== undefined && { policyYaml }) })

  test('one with entries, and one without', () => {
    for (const [list, number, entries] of [
      [{ number: 300n }, 300n, 1],
      [{ entries: undefined }, 7n, 0],
    ] as const) {
      const { added, ...others } = facts(list)
      assert.deepEqual([others, added.length], [{ number, entries, urls: [] }, entries])
    }
  })

  test('a number as far above the seconds since 1970 as a burst of lists may bring it', () => {
    const number = secondsNow(30) - 60n
    assert.equal(facts({ number }).number, number)
  })

  test('a stronger hash than certificates have', () => assert.equal(facts({ algorithm: 'SHA512withECDSA' }).entries, 1))

  test('none with a weaker hash than its issuer signs certificates with', () => {
    const strong = makeAuthority('P-384', { hash: 'sha384' })
    const judged = (algorithm: 'SHA256withECDSA' | 'SHA384withECDSA') =>
      examine(rawTbsList(strong, { algorithm }), { by: strong })
    assert.equal(judged('SHA384withECDSA').entries, 1)
    assert.throws(() => judged('SHA256withECDSA'), /SHA256withECDSA is weaker than SHA384withECDSA/)
  })

  test('one for a distribution point within the configured URLs', () => {
    const url = 'http://crl.test/default/4-1'
    assert.deepEqual(facts(idp([url]), '{ crl_urls: ["http://crl.test/"] }').urls, [url])
  })

  test('an entry without a reason and one with each that a complete list knows', () => {
    const entries = [1, 2, 3, 4, 5, 6, 9, 10].map((reason) =>
      rawEntry({ serial: Buffer.of(0x41, reason), extensions: [reasonCode(reason)] }),
    )
    assert.equal(facts({ entries: Buffer.concat([rawEntry(), ...entries]) }).entries, 9)
  })
})

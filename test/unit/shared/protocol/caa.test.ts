/** What a CAA record set permits (RFC 8659 §4, RFC 8657). */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { type CaaProperty, type CaaRequest, evaluateCaa } from '../../../../src/shared/protocol/caa.ts'
import { anyCharacter } from '../../../support/any-character.ts'
import { forAll } from '../../../support/property-runs.ts'

const ACCOUNT = 'https://acme.example/acct/1'
const BASE: CaaRequest = {
  wildcard: false,
  identities: ['ca1.example.net', 'ca.example.org'],
  accountUri: ACCOUNT,
  method: 'dns-01',
}
const WILDCARD = { wildcard: true }

/** `[flags] tag "value"` as in a zone file. */
function properties(lines: readonly string[]): CaaProperty[] {
  return lines.map((line) => {
    const [, flags, tag, value] = /^(\d+) (\S+) "(.*)"$/s.exec(line) ?? assert.fail(line)
    return { critical: (Number(flags) & 0x80) !== 0, tag: tag as string, value: value as string }
  })
}

type Row = [what: string, lines: readonly string[], expected: true | RegExp, request?: Partial<CaaRequest>]

const OTHER = /do not name this server/
const MALFORMED = /malformed/
const ACCOUNT_BOUND = /another account/
const METHOD_BOUND = /validation method/
const UNKNOWN = /critical property/

const ISSUE: Row[] = [
  ['no record at all', [], true],
  ['no record at all, wildcard', [], true, WILDCARD],
  ['our identity', ['0 issue "ca1.example.net"'], true],
  ['our second identity', ['0 issue "ca.example.org"'], true],
  ['another issuer', ['0 issue "ca2.example.org"'], OTHER],
  ['one of two issuers is us', ['0 issue "ca2.example.org"', '0 issue "ca1.example.net"'], true],
  ['the same the other way round', ['0 issue "ca1.example.net"', '0 issue "ca2.example.org"'], true],
  ['nobody (;)', ['0 issue ";"'], OTHER],
  ['nobody (empty value)', ['0 issue ""'], OTHER],
  ['nobody (blanks)', ['0 issue "  ; "'], OTHER],
  ['nobody with parameters', ['0 issue "; policy=ev"'], OTHER],
  ['nobody beside us: properties add up', ['0 issue ";"', '0 issue "ca1.example.net"'], true],
  ['a malformed value (§4.2) forbids', ['0 issue "%%%%%"'], OTHER],
  ['a malformed value beside us', ['0 issue "%%%%%"', '0 issue "ca1.example.net"'], true],
  ['the tag in capitals', ['0 ISSUE "ca2.example.org"'], OTHER],
  ['the tag in mixed case permits as well', ['0 IsSue "ca1.example.net"'], true],
  ['the issuer in capitals', ['0 issue "CA1.Example.NET"'], true],
  ['blanks and tabs around the issuer', ['0 issue "\t ca1.example.net \t"'], true],
  ['a parameter that is not ours', ['0 issue "ca1.example.net; policy=ev"'], true],
  ['several parameters', ['0 issue "ca1.example.net; policy=ev; account=230123"'], true],
  ['a separator without parameters', ['0 issue "ca1.example.net;"'], true],
  ['a parameter without a value sign', ['0 issue "ca1.example.net; policy"'], MALFORMED],
  ['a subdomain of ours is somebody else', ['0 issue "sub.ca1.example.net"'], OTHER],
  ['the parent of ours is somebody else', ['0 issue "example.net"'], OTHER],
  ['a final dot is outside the grammar', ['0 issue "ca1.example.net."'], OTHER],
  ['an underscore is outside the grammar', ['0 issue "_ca1.example.net"'], OTHER],
  ['bytes that are not ASCII', ['0 issue "ca1.exämple.net"'], OTHER],
  ['a line feed after the issuer', ['0 issue "ca1.example.net\n"'], OTHER],
  ['two issuers in one value', ['0 issue "ca2.example.org, ca1.example.net"'], OTHER],
]

const WILD: Row[] = [
  ['issuewild alone says nothing about other names (§4.3)', ['0 issuewild "ca2.example.org"'], true],
  ['issuewild ; alone says nothing about other names', ['0 issuewild ";"'], true],
  ['issue governs wildcards where there is no issuewild', ['0 issue "ca2.example.org"'], OTHER, WILDCARD],
  ['issue permits wildcards where there is no issuewild', ['0 issue "ca1.example.net"'], true, WILDCARD],
  ['issuewild without issue governs wildcards', ['0 issuewild "ca2.example.org"'], OTHER, WILDCARD],
  ['issuewild without issue permits us', ['0 issuewild "ca1.example.net"'], true, WILDCARD],
  ['issuewild overrides issue', ['0 issue "ca1.example.net"', '0 issuewild ";"'], OTHER, WILDCARD],
  ['issuewild overrides issue ;', ['0 issue ";"', '0 issuewild "ca1.example.net"'], true, WILDCARD],
  ['issuewild does not help other names', ['0 issue ";"', '0 issuewild "ca1.example.net"'], OTHER],
  ['a malformed issuewild overrides issue', ['0 issue "ca1.example.net"', '0 issuewild "%%"'], OTHER, WILDCARD],
  ['IssueWild in mixed case', ['0 issue "ca1.example.net"', '0 IssueWild ";"'], OTHER, WILDCARD],
]

const PROPERTIES: Row[] = [
  ['only iodef', ['0 iodef "mailto:security@example.com"'], true],
  ['only iodef, wildcard', ['0 iodef "mailto:security@example.com"'], true, WILDCARD],
  ['a critical iodef is understood', ['128 iodef "https://iodef.example.com/"'], true],
  ['contactemail beside us', ['0 contactemail "a@example.com"', '0 issue "ca1.example.net"'], true],
  ['only contactemail', ['0 contactemail "a@example.com"'], true],
  ['contactemail does not lift issue', ['0 contactemail "a@example.com"', '0 issue ";"'], OTHER],
  ['issuemail is about other certificates (RFC 9495)', ['0 issuemail ";"'], true],
  ['a critical issuemail is understood', ['128 issuemail ";"', '0 issue "ca1.example.net"'], true],
  ['an unknown property', ['0 tbs "Unknown"'], true],
  ['an unknown critical property (§4.5)', ['0 issue "ca1.example.net; policy=ev"', '128 tbs "Unknown"'], UNKNOWN],
  ['an unknown critical property alone', ['128 tbs "Unknown"'], UNKNOWN],
  ['an unknown critical property, wildcard', ['128 tbs "x"', '0 issuewild "ca1.example.net"'], UNKNOWN, WILDCARD],
  ['a critical property with a strange tag', ['128 is-sue "x"', '0 issue "ca1.example.net"'], UNKNOWN],
  ['a critical contactemail is nothing we act on', ['128 contactemail "a@example.com"'], UNKNOWN],
  ['a critical issue is understood', ['128 issue "ca1.example.net"'], true],
  ['a critical ISSUE is understood', ['128 ISSUE "ca1.example.net"'], true],
  ['all reserved flags mean nothing', ['127 tbs "Unknown"', '127 issue "ca1.example.net"'], true],
  ['flag value 1 is a reserved bit', ['1 tbs "Unknown"'], true],
  ['reserved flags beside the critical one', ['255 tbs "Unknown"'], UNKNOWN],
]

const ours = (parameters: string) => [`0 issue "ca1.example.net; ${parameters}"`]

const BINDINGS: Row[] = [
  ['our account', ours(`accounturi=${ACCOUNT}`), true],
  ['another account', ours('accounturi=https://acme.example/acct/2'), ACCOUNT_BOUND],
  ['a prefix of our account', ours('accounturi=https://acme.example/acct'), ACCOUNT_BOUND],
  ['our account as the beginning of another', ours(`accounturi=${ACCOUNT}0`), ACCOUNT_BOUND],
  ['another spelling of our account', ours('accounturi=HTTPS://acme.example/acct/1'), ACCOUNT_BOUND],
  ['an account URI that is none', ours('accounturi=nonsense'), ACCOUNT_BOUND],
  ['an empty account URI', ours('accounturi='), ACCOUNT_BOUND],
  ['our account twice is unsatisfiable', ours(`accounturi=${ACCOUNT}; accounturi=${ACCOUNT}`), ACCOUNT_BOUND],
  ['two accounts in two properties', [...ours('accounturi=x:y'), ...ours(`accounturi=${ACCOUNT}`)], true],
  ['a bound property beside a free one', [...ours('accounturi=x:y'), '0 issue "ca1.example.net"'], true],
  ['AccountURI binds as well', ours('AccountURI=x:y'), ACCOUNT_BOUND],
  ['our account at another issuer', [`0 issue "ca2.example.org; accounturi=${ACCOUNT}"`], OTHER],
  ['our method', ours('validationmethods=dns-01'), true],
  ['our method in a list', ours('validationmethods=http-01,dns-01,tls-alpn-01'), true],
  ['another method', ours('validationmethods=http-01'), METHOD_BOUND],
  ['a method of the CA itself', ours('validationmethods=ca-pki,dns-01'), true],
  ['only a method of the CA itself', ours('validationmethods=ca-pki'), METHOD_BOUND],
  ['no method', ours('validationmethods='), METHOD_BOUND],
  ['a list with a gap is malformed', ours('validationmethods=dns-01,,http-01'), METHOD_BOUND],
  ['a list that ends in a comma', ours('validationmethods=dns-01,'), METHOD_BOUND],
  ['the parameter twice is unsatisfiable', ours('validationmethods=dns-01; validationmethods=dns-01'), METHOD_BOUND],
  ['the method in capitals is another label', ours('validationmethods=DNS-01'), METHOD_BOUND],
  ['a label with a dot is malformed', ours('validationmethods=dns-01,a.b'), METHOD_BOUND],
  ['no method was used', ours('validationmethods=dns-01'), METHOD_BOUND, { method: undefined }],
  ['no method was used and none is asked for', ['0 issue "ca1.example.net"'], true, { method: undefined }],
  ['dns-persist-01', ours('validationmethods=dns-persist-01'), true, { method: 'dns-persist-01' }],
  ['tls-alpn-01 is not http-01', ours('validationmethods=http-01'), METHOD_BOUND, { method: 'tls-alpn-01' }],
  ['account and method both fit', ours(`accounturi=${ACCOUNT}; validationmethods=dns-01`), true],
  ['the account fits, the method not', ours(`accounturi=${ACCOUNT}; validationmethods=http-01`), METHOD_BOUND],
  ['the method fits, the account not', ours('validationmethods=dns-01; accounturi=x:y'), ACCOUNT_BOUND],
  [
    'each constraint met by another property only',
    [...ours(`accounturi=${ACCOUNT}; validationmethods=http-01`), ...ours('accounturi=x:y; validationmethods=dns-01')],
    METHOD_BOUND,
  ],
  ['bindings of issuewild', ['0 issuewild "ca1.example.net; accounturi=x:y"'], ACCOUNT_BOUND, WILDCARD],
  [
    'bindings of issue do not matter where issuewild governs',
    [...ours('accounturi=x:y'), '0 issuewild "ca1.example.net"'],
    true,
    WILDCARD,
  ],
]

for (const [section, rows] of Object.entries({
  'issue (RFC 8659 §4.2)': ISSUE,
  'issuewild (RFC 8659 §4.3)': WILD,
  'other properties and flags (RFC 8659 §4.1, §4.4, §4.5)': PROPERTIES,
  'accounturi and validationmethods (RFC 8657 §3, §4)': BINDINGS,
})) {
  describe(section, () => {
    for (const [what, lines, expected, request] of rows)
      test(`${what}: ${expected === true ? 'permitted' : 'forbidden'}`, () => {
        const decision = evaluateCaa(properties(lines), { ...BASE, ...request })
        assert.equal(decision.permitted, expected === true)
        if (!decision.permitted && expected !== true) assert.match(decision.reason, expected)
      })
  })
}

describe('any record set', () => {
  const text = fc.oneof(
    fc.string({ unit: anyCharacter, maxLength: 60 }),
    fc.constantFrom(
      ';',
      '',
      'ca2.example.org',
      'ca1.example.net',
      'ca1.example.net; accounturi=x:y',
      'ca1.example.net; x',
    ),
  )
  const record = fc.record({
    critical: fc.boolean(),
    tag: fc.oneof(fc.constantFrom('issue', 'issuewild', 'ISSUE', 'iodef', 'tbs'), fc.string({ maxLength: 15 })),
    value: text,
  })
  const request = fc.record({ wildcard: fc.boolean(), method: fc.constantFrom('dns-01', undefined) })
  const namesUs = ({ value }: CaaProperty) => /^[ \t]*ca1\.example\.net[ \t]*(;|$)/i.test(value)

  const always = (holds: (records: CaaProperty[], over: Pick<CaaRequest, 'wildcard' | 'method'>) => void) =>
    forAll(fc.array(record, { maxLength: 6 }), request, holds)

  test('with an issue property permits only where a governing property names this server', () =>
    always((records, over) => {
      const set = [...records, { critical: false, tag: 'issue', value: ';' }]
      const decision = evaluateCaa(set, { ...BASE, ...over, identities: ['ca1.example.net'] })
      const governs = (tag: string) => (over.wildcard ? /^issue(wild)?$/i : /^issue$/i).test(tag)
      if (decision.permitted) assert.ok(set.some((one) => governs(one.tag) && namesUs(one)))
    }))
  test('is judged without regard to its order', () =>
    always((records, over) => {
      const forward = evaluateCaa(records, { ...BASE, ...over })
      assert.deepEqual(evaluateCaa(records.toReversed(), { ...BASE, ...over }), forward)
    }))
  test('loses nothing but permission when a record is critical and unknown', () =>
    always((records, over) => {
      const set = [...records, { critical: true, tag: 'future', value: 'x' }]
      assert.equal(evaluateCaa(set, { ...BASE, ...over }).permitted, false)
    }))
  test('gives reasons without a byte of its own', () =>
    always((records, over) => {
      const marked = records.map((one) => ({ ...one, value: `${one.value}ZQX`, tag: `${one.tag}ZQX` }))
      const decision = evaluateCaa([...marked, { critical: false, tag: 'issue', value: ';' }], { ...BASE, ...over })
      if (!decision.permitted) assert.doesNotMatch(decision.reason, /ZQX/)
    }))
})

/** Which identifiers may be ordered. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { matchesPattern } from '../../../src/domain/allowlist.ts'
import {
  checkIdentifiers,
  type IdentifierPolicy,
  type IsRegistry,
  publicSuffixes,
} from '../../../src/domain/identifier-policy.ts'
import { Problem } from '../../../src/shared/protocol/problem.ts'
import { constraintsOn } from '../../signer/authority.ts'
import { refusalBy } from '../../support/refusals.ts'

const POLICY: IdentifierPolicy = {
  allowedDomains: [],
  forbiddenDomains: [],
  allowWildcards: true,
  allowIp: true,
  allowSingleLabel: false,
  maxIdentifiers: 3,
  maxValueLength: 253,
  enabledChallenges: ['http-01', 'dns-01'],
}
const dns = (value: string) => ({ type: 'dns', value })

const refusalOf = (values: { type: string; value: string }[], policy: Partial<IdentifierPolicy> = {}) =>
  refusalBy(Problem, () => checkIdentifiers(values, { ...POLICY, ...policy }))

test('identifiers come back in order and in normal form', () =>
  assert.deepEqual(
    checkIdentifiers([dns('*.B.example'), dns('b.EXAMPLE'), { type: 'ip', value: '2001:DB8::1' }], POLICY),
    [dns('*.b.example'), dns('b.example'), { type: 'ip', value: '2001:db8::1' }],
  ))

test('an identifier that is named twice, in another spelling too, counts once', () =>
  assert.deepEqual(checkIdentifiers([dns('a.example'), dns('A.example'), dns('a.example')], POLICY), [
    dns('a.example'),
  ]))

test('a U-label is malformed, and the detail names the A-label to send (RFC 8555 §7.1.4)', () => {
  const { type, message } = refusalOf([dns('www.bücher.example')])
  assert.equal(type, 'malformed')
  assert.match(message, /; send www\.xn--bcher-kva\.example/)
})

const patterns: [name: string, pattern: string, matches: boolean][] = [
  ['a.example', 'a.example', true],
  ['a.example', 'A.EXAMPLE.', true],
  ['b.a.example', 'a.example', false],
  ['a.example', '*.a.example', true],
  ['c.b.a.example', '*.a.example', true],
  ['ba.example', '*.a.example', false],
  ['example', '*.a.example', false],
]
for (const [name, pattern, matches] of patterns)
  test(`${name} ${matches ? 'matches' : 'does not match'} ${pattern}`, () =>
    assert.equal(matchesPattern(name, pattern), matches))

const ADDRESS = { type: 'ip', value: '192.0.2.1' }
const CO_UK: Partial<IdentifierPolicy> = { isRegistry: (name) => name === 'co.uk' }
type Refused = [why: string, value: string | typeof ADDRESS, policy?: Partial<IdentifierPolicy>, type?: string]
const refused: Refused[] = [
  ['a forbidden name', 'x.bad.example', { forbiddenDomains: ['*.bad.example'] }],
  ['a wildcard above a forbidden name', '*.bad.example', { forbiddenDomains: ['*.bad.example'] }],
  ['a wildcard that speaks for a forbidden name', '*.corp.example', { forbiddenDomains: ['vault.corp.example'] }],
  [
    'a wildcard that speaks for the top of a forbidden tree',
    '*.corp.example',
    { forbiddenDomains: ['*.vault.corp.example'] },
  ],
  ['a wildcard right below a forbidden name', '*.vault.corp.example', { forbiddenDomains: ['vault.corp.example'] }],
  ['a wildcard inside a forbidden tree', '*.a.bad.example', { forbiddenDomains: ['*.bad.example'] }],
  [
    'a wildcard over a name that is allowed by itself',
    '*.good.example',
    { allowedDomains: ['good.example', 'www.good.example'] },
  ],
  ['a name outside the allowed ones', 'x.example', { allowedDomains: ['*.good.example'] }],
  ['a wildcard where there are none', '*.a.example', { allowWildcards: false }],
  ['a wildcard without a DNS challenge', '*.a.example', { enabledChallenges: ['http-01'] }],
  ['an address with only DNS challenges', ADDRESS, { enabledChallenges: ['dns-01'] }],
  ['an address where there are none', ADDRESS, { allowIp: false }, 'unsupportedIdentifier'],
  ...['0.0.0.0', '224.0.0.1', '239.255.255.255', '255.255.255.255', '::', '0:0:0:0:0:0:0:0', 'ff02::1', 'FFFF::'].map(
    (value): Refused => [`${value}, at which nothing can be validated,`, { type: 'ip', value }],
  ),
  ['a wildcard right below a registry', '*.co.uk', CO_UK],
  ['a name below .onion', 'abcdef.onion'],
  ['a wildcard below .arpa', '*.1.168.192.in-addr.arpa'],
  ['a single label', 'intranet'],
  ['another type', { type: 'tn', value: 'x' }, {}, 'unsupportedIdentifier'],
  ['a type that names a member of Object', { type: 'constructor', value: 'x' }, {}, 'unsupportedIdentifier'],
  ['a long value', 'aaaaa.example', { maxValueLength: 5 }],
]
for (const [why, value, policy, type = 'rejectedIdentifier'] of refused)
  test(`${why} is ${type}, without subproblems`, () => {
    const problem = refusalOf([typeof value === 'string' ? dns(value) : value], policy)
    assert.equal(problem.type, type)
    assert.equal(problem.toJSON().subproblems, undefined)
  })

const granted: [why: string, value: string, policy: Partial<IdentifierPolicy>][] = [
  ['a name below .onion that the configuration allows by name', 'a.onion', { allowedDomains: ['*.onion'] }],
  ['a name that only contains arpa', 'a.notarpa', {}],
  ['a registry itself', 'co.uk', CO_UK],
  ['a wildcard below a registered name', '*.a.co.uk', CO_UK],
  ['a wildcard in an allowed tree', '*.good.example', { allowedDomains: ['*.good.example'] }],
  ['a wildcard deep in an allowed tree', '*.a.b.good.example', { allowedDomains: ['*.good.example'] }],
  ['a wildcard two labels above a forbidden name', '*.example', { forbiddenDomains: ['vault.corp.example'] }],
  ['a wildcard beside a forbidden name', '*.corp.example', { forbiddenDomains: ['vault.corp2.example'] }],
]
for (const [why, value, policy] of granted)
  test(`${why} is accepted`, () =>
    assert.deepEqual(checkIdentifiers([dns(value)], { ...POLICY, allowSingleLabel: true, ...policy }), [dns(value)]))

test('a single label is accepted where it is allowed', () =>
  assert.deepEqual(checkIdentifiers([dns('intranet')], { ...POLICY, allowSingleLabel: true }), [dns('intranet')]))

test('one refusal among several names has its own type, and a subproblem that names it', () => {
  const { type, options } = refusalOf([dns('fine.example'), dns('one')])
  assert.equal(type, 'rejectedIdentifier')
  assert.deepEqual(
    options.subproblems?.map(({ identifier }) => identifier),
    [dns('one')],
  )
})

test('several refusals are one compound problem, each with its identifier as it was sent', () => {
  const { type, options } = refusalOf([dns('Bad..example'), dns('fine.example'), dns('one')])
  assert.equal(type, 'compound')
  const found = options.subproblems?.map((sub) => [sub.type, sub.identifier])
  assert.deepEqual(found, [
    ['malformed', dns('Bad..example')],
    ['rejectedIdentifier', dns('one')],
  ])
})

test('none and too many are malformed', () => {
  assert.equal(refusalOf([]).type, 'malformed')
  assert.equal(refusalOf(Array.from({ length: 4 }, (_, i) => dns(`a${i}.example`))).type, 'malformed')
})

test('what a client sent is shown to it short and printable', () => {
  const { message } = refusalOf([dns(`\u001b[31m\r\n${'x'.repeat(200)}`)])
  assert.match(message, /^[\x20-\x7e…]+$/)
  assert.ok(message.length < 250)
})

test('names that the name constraints of every issuer exclude are refused, each with the reason', () => {
  const corp = [constraintsOn({ dns: ['corp.test'] }, { dns: ['secret.corp.test'] })]
  const check = (values: string[], issuers: Parameters<typeof checkIdentifiers>[3]) =>
    checkIdentifiers(values.map(dns), POLICY, undefined, issuers)
  assert.equal(check(['a.corp.test'], [corp]).length, 1)
  assert.equal(check(['x.lab.test'], [corp, []]).length, 1)
  assert.equal(check(['x.lab.test'], []).length, 1)
  const problemOf = (values: string[]) => refusalBy(Problem, () => check(values, [corp]))
  const one = problemOf(['a.corp.test', 'x.lab.test'])
  assert.equal(one.type, 'rejectedIdentifier')
  assert.match(one.message, /^x\.lab\.test is outside the permitted subtrees \(name constraints of the CA\)$/)
  assert.equal(problemOf(['b.secret.corp.test', 'x.lab.test']).type, 'compound')
})

const names: Record<string, boolean> = {
  com: true,
  uk: true,
  'co.uk': true,
  'example.co.uk': false,
  'a.example.co.uk': false,
  // Only a rule with `*` speaks of what is below these.
  ck: true,
  'kawasaki.jp': true,
  'any.kawasaki.jp': true,
  'city.kawasaki.jp': false,
  'www.ck': false,
  'xn--55qx5d.cn': true,
  'xn--p1ai': true,
  // The section of private domains.
  'github.io': false,
  'user.github.io': false,
  // A top-level name that is not on the list may be one tomorrow.
  'unknown-top-level': true,
  'example.unknown-top-level': false,
}
for (const [name, isOne] of Object.entries(names))
  test(`${name} is ${isOne ? 'a' : 'no'} registry by the built-in list`, () =>
    assert.equal((publicSuffixes('builtin') as IsRegistry)(name), isOne))

test('without a list nothing is asked', () => assert.equal(publicSuffixes('none'), undefined))

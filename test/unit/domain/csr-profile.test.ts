/** CSR profiles: every field of `profile_data`, collected violations, and what is no profile. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import {
  asksForHistory,
  type CertificateHistory,
  CsrProfileError,
  csrProfileProblem,
  csrProfileViolations,
  parseCsrProfile,
} from '../../../src/domain/csr-profile.ts'
import { type Csr, CsrError, parseCsr } from '../../../src/shared/pki/csr.ts'
import { forAll, forAnyInput } from '../../support/property-runs.ts'
import { unlessRefused } from '../../support/refusals.ts'
import { words } from '../../support/words.ts'
import { aCsr, ED25519_KEY, mutated, P256_KEY, P521_KEY, RSA_KEY, type TestKey, x509 } from '../shared/pki/support.ts'

type Options = Parameters<typeof aCsr>[1]
const dns = (...values: string[]) => ({ names: values.map((value) => ({ type: 'dns' as const, value })) })
const csrOf = async (options: Options = {}, key = P256_KEY): Promise<Csr> => parseCsr(await aCsr(key, options))
const violations = (csr: Csr, data: object) => csrProfileViolations(csr, parseCsrProfile(data))

const names = (...texts: string[]) =>
  texts.map((text) => {
    const [type, ...value] = text.split(':')
    return { type, value: value.join(':') } as { type: 'dns'; value: string }
  })
const SERVER_ONLY = { authorized_extended_key_usages: ['serverAuth'] }
const depth = (max_subdomain_depth: number, depth_base_domains: string[]) => ({
  max_subdomain_depth,
  depth_base_domains,
})

const usages = (...flags: number[]) => new x509.KeyUsagesExtension(flags.reduce((sum, flag) => sum | flag, 0))
const { digitalSignature, keyCertSign, keyEncipherment } = x509.KeyUsageFlags
const purposes = (...oids: string[]) => new x509.ExtendedKeyUsageExtension(oids)
const SERVER = '1.3.6.1.5.5.7.3.1'

describe('CSR profile checks', () => {
  type Case = [what: string, data: object, csr: Options & { key?: TestKey }, expected: (RegExp | string)[]]
  const cases: Case[] = [
    ['an empty profile asks nothing', {}, {}, []],
    ['null members ask nothing', { san_regex: null, authorized_keys: null }, {}, []],
    ['unknown members are passed over', { future_rule: [1], __proto__x: 1 }, {}, []],
    ['an authorized key type', { authorized_keys: { 'EC.secp256r1': 256 } }, {}, []],
    [
      'a key type that is not listed',
      { authorized_keys: { RSA: 2048, Ed25519: 0 } },
      {},
      ['keys of type EC.secp256r1 are not authorized; use RSA, Ed25519'],
    ],
    ['no key type at all', { authorized_keys: {} }, {}, ['keys of type EC.secp256r1 are not authorized; use none']],
    [
      'a key that is too small',
      { authorized_keys: { RSA: 3072 } },
      { key: RSA_KEY },
      ['the RSA key has 2048 bits; the minimum is 3072'],
    ],
    ['size 0 is no minimum', { authorized_keys: { RSA: 0 } }, { key: RSA_KEY }, []],
    ['a key of P-521 has 521 bits', { authorized_keys: { 'EC.secp521r1': 522 } }, { key: P521_KEY }, [/has 521 bits/]],
    ['Ed25519 has no size', { authorized_keys: { Ed25519: 256 } }, { key: ED25519_KEY }, []],
    [
      'labels that Object.prototype knows authorize nothing',
      { authorized_keys: { toString: 1 } },
      {},
      [/not authorized/],
    ],
    ['an authorized signature algorithm', { authorized_signature_algorithms: ['SHA256withECDSA'] }, {}, []],
    [
      'algorithm names are case-sensitive',
      { authorized_signature_algorithms: ['sha256withecdsa'] },
      {},
      [/^signature algorithm SHA256withECDSA is not authorized; use sha256/],
    ],
    ['Ed25519 as an algorithm', { authorized_signature_algorithms: ['Ed25519'] }, { key: ED25519_KEY }, []],
    ['key usages are not looked at when the CSR has none', { authorized_key_usages: [] }, {}, []],
    [
      'authorized key usages',
      { authorized_key_usages: ['digital_signature', 'crl_sign'] },
      { extensions: [usages(digitalSignature)] },
      [],
    ],
    [
      'every key usage that is too much',
      { authorized_key_usages: ['digital_signature'] },
      { extensions: [usages(digitalSignature, keyCertSign, keyEncipherment)] },
      ['key usage key_encipherment is not authorized', 'key usage key_cert_sign is not authorized'],
    ],
    ['authorized extended key usages, by RFC name', SERVER_ONLY, { extensions: [purposes(SERVER)] }, []],
    [
      'an extended key usage that is too much',
      SERVER_ONLY,
      { extensions: [purposes(SERVER, '1.3.6.1.5.5.7.3.9')] },
      ['extended key usage OCSPSigning is not authorized'],
    ],
    [
      'an unknown extended key usage goes by its OID',
      SERVER_ONLY,
      { extensions: [purposes('1.2.3.4')] },
      ['extended key usage 1.2.3.4 is not authorized'],
    ],
    [
      'an OID can be authorized',
      { authorized_extended_key_usages: ['1.2.3.4'] },
      { extensions: [purposes('1.2.3.4')] },
      [],
    ],
    [
      'a common name is missing',
      { common_name_minimum: 1 },
      {},
      ['0 common names of at most 64 characters; the minimum is 1'],
    ],
    [
      'too many common names',
      { common_name_maximum: 1 },
      { subject: 'CN=a.example,CN=b.example' },
      ['2 common names; the maximum is 1'],
    ],
    [
      'common name bounds of -1 are none',
      { common_name_minimum: -1, common_name_maximum: -1 },
      { subject: 'CN=a,CN=b' },
      [],
    ],
    ['no common name wanted', { common_name_maximum: 0 }, { subject: 'CN=a' }, ['1 common names; the maximum is 0']],
    [
      'every common name has to match wholly',
      { common_name_regex: '[a-z]+\\.example' },
      { subject: 'CN=a.example,CN=b.example.org' },
      ['common name b.example.org does not match [a-z]+\\.example'],
    ],
    [
      'a common name counts for the minimum only where it fits',
      { common_name_minimum: 1 },
      { subject: `CN=${'a'.repeat(60)}.example` },
      ['0 common names of at most 64 characters; the minimum is 1'],
    ],
    [
      'a common name is judged in the spelling that the certificate gets',
      { common_name_regex: '[a-z]+\\.example' },
      { subject: 'CN=\\ A.EXAMPLE.' },
      [],
    ],
    ['the pattern is not asked without a common name', { common_name_regex: 'x' }, {}, []],
    ['too few SANs', { san_minimum: 2 }, dns('a.example'), ['1 subject alternative names; the minimum is 2']],
    [
      'too many SANs of the four kinds together',
      { san_maximum: 3 },
      { names: names('dns:a.example', 'ip:192.0.2.1', 'email:a@example', 'url:http://a') },
      ['4 subject alternative names; the maximum is 3'],
    ],
    [
      'other kinds of SAN are not counted',
      { san_maximum: 1, san_types: ['DNS_NAME'] },
      { names: names('dns:a.example', 'id:1.2.3') },
      [],
    ],
    ['SAN bounds of -1 are none', { san_minimum: -1, san_maximum: -1 }, { names: [] }, []],
    [
      'every SAN of the four kinds has to match',
      { san_regex: '.*\\.example' },
      { names: names('dns:a.example', 'dns:b.test', 'ip:192.0.2.1') },
      [/^subject alternative name b\.test does not match/, /^subject alternative name 192\.0\.2\.1 does not/],
    ],
    [
      'SAN types',
      { san_types: ['DNS_NAME', 'RFC822_NAME'] },
      { names: names('dns:a.example', 'ip:192.0.2.1', 'ip:192.0.2.2', 'url:http://a', 'email:a@example') },
      [
        'subject alternative names of type IP_ADDRESS are not authorized',
        'subject alternative names of type URI are not authorized',
      ],
    ],
    ['a SAN listed twice counts once', { san_maximum: 1 }, dns('a.example', 'A.example'), []],
    [
      'a common name beside the SANs counts as one, as the certificate will carry it',
      { san_maximum: 1 },
      { ...dns('a.example'), subject: 'CN=b.example' },
      ['2 subject alternative names; the maximum is 1'],
    ],
    [
      'a common name that the SAN repeats counts once',
      { san_maximum: 1 },
      { ...dns('a.example'), subject: 'CN=A.example' },
      [],
    ],
    [
      'the SAN pattern is asked of a name in the common name alone',
      { san_regex: 'a\\..*' },
      { ...dns('a.example'), subject: 'CN=b.example' },
      [/^subject alternative name b\.example does not match/],
    ],
    [
      'a wildcard in the common name alone is one in the SAN of the certificate',
      { wildcard_in_san: false },
      { names: [], subject: 'CN=*.a.example' },
      ['subject alternative name *.a.example is a wildcard'],
    ],
    [
      'an address in the common name alone is an iPAddress of the certificate',
      { san_types: ['DNS_NAME'] },
      { names: [], subject: 'CN=2001:DB8:0::1' },
      ['subject alternative names of type IP_ADDRESS are not authorized'],
    ],
    ['the subject matches in RFC 4514 order', { subject_regex: 'CN=a,O=Ex' }, { subject: 'O=Ex,CN=a' }, []],
    [
      'the subject does not match',
      { subject_regex: 'O=Ex' },
      { subject: 'O=Ex,CN=a' },
      ['subject CN=a,O=Ex does not match O=Ex'],
    ],
    ['an empty subject is matched too', { subject_regex: '.+' }, {}, [/^subject {2}does not match/]],
    [
      'wildcards are allowed by true',
      { wildcard_in_common_name: true, wildcard_in_san: true },
      { ...dns('*.a.example'), subject: 'CN=*.a.example' },
      [],
    ],
    [
      'wildcards are forbidden by false',
      { wildcard_in_common_name: false, wildcard_in_san: false },
      { ...dns('*.a.example', 'b.example'), subject: 'CN=*.a.example' },
      ['common name *.a.example is a wildcard', 'subject alternative name *.a.example is a wildcard'],
    ],
    ...[' *.a.example', '*.A.example ', '*.a.example.', '\u00a0*.a.example', '\ufeff*.a.example'].map(
      (name): Case => [
        `the common name ${JSON.stringify(name)} is issued as a wildcard`,
        { wildcard_in_common_name: false, common_name_regex: '[^*].*' },
        { ...dns('*.a.example'), subject: [{ CN: [name] }] },
        ['common name *.a.example does not match [^*].*', 'common name *.a.example is a wildcard'],
      ],
    ),
    ['depth needs both members', { max_subdomain_depth: 0 }, dns('a.b.example'), []],
    ['bases alone ask nothing', { depth_base_domains: ['x.test'] }, dns('a.b.example'), []],
    [
      'depth 0 is the base itself',
      depth(0, ['Example.']),
      dns('example', 'a.example'),
      ['a.example is 1 labels below its base domain; the maximum is 0'],
    ],
    ['the longest base counts', depth(1, ['example', 'b.example']), dns('a.b.example'), []],
    ['a wildcard label counts', depth(1, ['example']), dns('*.a.example'), [/is 2 labels/]],
    [
      'a name below no base',
      depth(9, ['example', 'test']),
      dns('notexample'),
      ['notexample lies below none of example, test'],
    ],
    [
      'common names have a depth as well',
      depth(1, ['example']),
      { ...dns('a.example'), subject: 'CN=a.b.example' },
      [/^a\.b\.example is 2 labels/],
    ],
    ['IP addresses have none', depth(1, ['example']), { names: names('ip:192.0.2.1') }, []],
  ]
  for (const [what, data, csr, expected] of cases)
    test(what, async () => {
      const { key, ...options } = csr
      const found = violations(await csrOf(options, key), data)
      assert.equal(found.length, expected.length, found.join('\n'))
      for (const [index, wanted] of expected.entries())
        if (typeof wanted === 'string') assert.equal(found[index], wanted)
        else assert.match(found[index] as string, wanted)
    })

  test('violations of several rules are collected in one badCSR, none naming an identifier (RFC 8555 §6.7.1)', async () => {
    const csr = await csrOf(dns('*.a.example'))
    const found = violations(csr, { authorized_keys: {}, wildcard_in_san: false, san_minimum: 5 })
    const { status, ...problem } = csrProfileProblem(found).toJSON()
    assert.equal(status, 400)
    assert.equal(problem.type, 'urn:ietf:params:acme:error:badCSR')
    assert.equal(problem.subproblems?.length, 3)
    assert.ok(problem.subproblems?.every((sub) => sub.type === problem.type && !('identifier' in sub)))
    assert.ok(problem.detail.endsWith(found.join('; ')))
  })

  test('of a long list five entries are named, and of a long expression its beginning', async () => {
    const bases = Array.from({ length: 1_000 }, (_, number) => `b${number}.example`)
    const csr = await csrOf(dns('a.test'))
    assert.deepEqual(violations(csr, { max_subdomain_depth: 1, depth_base_domains: bases }), [
      'a.test lies below none of b0.example, b1.example, b2.example, b3.example, b4.example and 995 more',
    ])
    assert.deepEqual(violations(csr, { san_regex: 'b'.repeat(1_500) }), [
      `subject alternative name a.test does not match ${'b'.repeat(100)}…`,
    ])
    const oid = `1.2.${'3'.repeat(100)}`
    assert.deepEqual(violations(await csrOf({ extensions: [purposes(oid)] }), { authorized_extended_key_usages: [] }), [
      `extended key usage ${oid.slice(0, 100)}… is not authorized`,
    ])
  })

  test('fifty violations are named, and the others counted', async () => {
    const csr = await csrOf(dns(...Array.from({ length: 60 }, (_, number) => `${number}.test`)))
    const found = csrProfileViolations(csr, parseCsrProfile({ san_regex: 'x', reuse_key: false }), {
      history: { keyCertified: true, notDue: false },
    })
    assert.deepEqual(
      [found.length, found[0], found.at(-1)],
      [51, 'subject alternative name 0.test does not match x', 'and 11 more'],
    )
    const { detail, subproblems } = csrProfileProblem(found).toJSON()
    assert.equal(subproblems?.length, 51)
    assert.ok(detail.endsWith(`${found.slice(0, 5).join('; ')}; and others`), detail)
  })

  test('history is asked only where a field needs it, and only false forbids a key to come back', async () => {
    const cases: [object, boolean][] = [
      [{}, false],
      [{ reuse_key: true }, false],
      [{ reuse_key: false }, true],
      [{ renewal_window_days: 0 }, false],
      [{ renewal_window_days: -1 }, false],
      [{ renewal_window_days: 30 }, true],
    ]
    for (const [data, asks] of cases) assert.equal(asksForHistory(parseCsrProfile(data)), asks, JSON.stringify(data))
    const seen = { keyCertified: true, notDue: true }
    const csr = await csrOf()
    const found = (data: object, history: CertificateHistory) =>
      csrProfileViolations(csr, parseCsrProfile(data), { history })
    assert.deepEqual(found({}, seen), [])
    assert.equal(found({ reuse_key: false }, seen).length, 1)
    assert.match(found({ renewal_window_days: 30 }, seen)[0] ?? '', /more than 30 days/)
    assert.deepEqual(found({ reuse_key: false, renewal_window_days: 1 }, { keyCertified: false, notDue: false }), [])
  })
})

describe('what is no CSR profile', () => {
  const wrong: [data: unknown, fault: RegExp][] = [
    [null, /^profile_data must be an object$/],
    [[], /^profile_data must be an object$/],
    ['x', /^profile_data must be an object$/],
    [{ authorized_keys: ['RSA'] }, /authorized_keys must be an object of/],
    [{ authorized_keys: { RSA: '2048' } }, /authorized_keys/],
    [{ authorized_keys: { RSA: -1 } }, /authorized_keys/],
    [{ authorized_signature_algorithms: 'Ed25519' }, /must be a list of texts/],
    [{ authorized_key_usages: [1] }, /must be a list of texts/],
    [{ common_name_minimum: 1.5 }, /common_name_minimum must be an integer/],
    [{ san_maximum: -2 }, /san_maximum must be an integer from -1/],
    [{ san_maximum: '3' }, /san_maximum/],
    [{ san_regex: '(' }, /^san_regex is not a regular expression of this server \(RE2 syntax\): missing/],
    [{ subject_regex: 7 }, /subject_regex must be a regular expression/],
    [{ wildcard_in_san: 'no' }, /wildcard_in_san must be true or false/],
    [{ max_subdomain_depth: -1 }, /max_subdomain_depth must be an integer from 0/],
    [{ depth_base_domains: [''] }, /depth_base_domains must be a list of texts that are not empty/],
    [{ reuse_key: 0 }, /reuse_key must be true or false/],
    [{ renewal_window_days: 1e300 }, /renewal_window_days must be an integer/],
  ]
  for (const [data, fault] of wrong)
    test(JSON.stringify(data), () =>
      assert.throws(
        () => parseCsrProfile(data),
        (error) => error instanceof CsrProfileError && error.faults.length === 1 && fault.test(error.faults[0] ?? ''),
      ),
    )

  test('all faults are named at once', () => {
    const data = { san_regex: '(', common_name_regex: '[', reuse_key: 'x' }
    assert.throws(
      () => parseCsrProfile(data),
      (error) => error instanceof CsrProfileError && error.faults.length === 3,
    )
  })

  test('any JSON is a profile or a CsrProfileError', () => {
    const member = fc.constantFrom(
      ...words`
        authorized_keys san_types san_minimum san_regex reuse_key depth_base_domains max_subdomain_depth
        renewal_window_days wildcard_in_san
      `,
    )
    forAll(fc.oneof(fc.jsonValue(), fc.dictionary(member, fc.jsonValue())), (data) => {
      unlessRefused(CsrProfileError, () => parseCsrProfile(data))
    })
  })
})

describe('CSR profile checks are total', () => {
  test('for any CSR that parses and a profile of all rules the answer is a list of short sentences', async () => {
    const profile = parseCsrProfile({
      authorized_keys: { RSA: 4096 },
      authorized_signature_algorithms: [],
      authorized_key_usages: [],
      authorized_extended_key_usages: [],
      common_name_minimum: 2,
      common_name_maximum: 0,
      common_name_regex: '(a|a?)+$',
      san_regex: '([a-z]+)*[0-9]',
      san_types: [],
      subject_regex: '(x+x+)+y',
      wildcard_in_common_name: false,
      wildcard_in_san: false,
      max_subdomain_depth: 0,
      depth_base_domains: ['example'],
    })
    const originals = [
      await aCsr(P256_KEY, { ...dns('a.example', '*.b.example'), subject: 'CN=a.example,O=Ex' }),
      await aCsr(RSA_KEY, { extensions: [usages(digitalSignature), purposes(SERVER)] }),
    ]
    let judged = 0
    forAnyInput(fc.oneof(fc.constantFrom(...originals), mutated(originals)), (der) => {
      const csr = unlessRefused(CsrError, () => parseCsr(der))
      if (!csr) return
      for (const sentence of csrProfileViolations(csr, profile)) assert.match(sentence, /^[\x20-\x7e…]{1,400}$/)
      judged++
    })
    assert.ok(judged > 30, `${judged} judged`)
  })

  test('names too long for the patterns of the profile are a violation, not a wait', async () => {
    const csr = await csrOf({ ...dns('a.example'), subject: `O=${'ab'.repeat(8_000)}` })
    const startedAt = process.cpuUsage()
    const found = violations(csr, { subject_regex: '.*a[ab]{900}.*' })
    const { user } = process.cpuUsage(startedAt)
    assert.deepEqual(found, ['its names are too long for the regular expressions of the profile'])
    assert.ok(user < 2_000_000)
  })
})

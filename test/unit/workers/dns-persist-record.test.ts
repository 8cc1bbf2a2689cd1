/** What the records of dns-persist-01 say (draft-ietf-acme-dns-persist-01 §4, §5, §6, §7.8, §9.3.1; -02 §4.1, §7.9). */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { hashedAccountUri } from '../../../src/shared/protocol/challenge.ts'
import {
  evaluateRecords,
  MIN_LIFETIME_SECONDS,
  type PersistSubject,
  type RecordsVerdict,
} from '../../../workers/validate/dns-persist-record.ts'
import { forAnyInput } from '../../support/property-runs.ts'

const NOW = new Date('2026-03-24T12:00:00.250Z')
const NOW_SECONDS = 1_774_353_600
const URL = 'https://ca.example/acct/0190c4b2-0000-7000-8000-00000000abc0'
const OTHER = URL.replace('abc0', 'abd0')
const RIGHT = `ca.example; accounturi=${URL}`
const WILD = `${RIGHT}; policy=wildcard`
const PREFIX = 'https://ca.example/account-hash/'
const THUMBPRINT = 'NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs'
const FORMER = THUMBPRINT.replace('Nz', 'Mz')

const SUBJECT: PersistSubject = {
  recordName: 'example.com',
  below: false,
  wildcard: false,
  issuerDomainNames: ['ca.example', 'ca2.example', 'xn--bcher-kva.example'],
  accountUrl: URL,
  allowWildcardPolicy: true,
}
const HASHED = { hashed: { prefix: PREFIX, thumbprints: [THUMBPRINT, FORMER] } }
const hashed = (domainName: string, thumbprint = THUMBPRINT, accountUrl = URL) =>
  hashedAccountUri(PREFIX, { domainName, thumbprint, accountUrl })

const evaluate = (texts: readonly string[], over: Partial<PersistSubject> = {}, ttlSeconds = 3600): RecordsVerdict =>
  evaluateRecords(
    texts.map((text) => ({ text, ttlSeconds })),
    { ...SUBJECT, ...over },
    NOW,
  )

describe('many records and many keys', () => {
  const many = Array.from({ length: 1000 }, (_, i) => THUMBPRINT.replace('NzbL', String(i).padStart(4, '0')))
  const stranger = `ca.example; accounturi=${hashed('example.org')}`

  test('each key is hashed once for a name, however many records there are', () => {
    let reads = 0
    const thumbprints = new Proxy(many, {
      get(target, key) {
        if (key === '0') reads++
        return Reflect.get(target, key) as unknown
      },
    })
    const records = Array.from({ length: 100 }, () => stranger)
    const verdict = evaluate([...records, ...records.slice(1), ''], { hashed: { prefix: PREFIX, thumbprints } })
    assert.equal(verdict.kind, 'refused')
    const right = `ca.example; accounturi=${hashed('example.com', many.at(-1))}`
    assert.equal(evaluate([...records.slice(1), right], { hashed: { prefix: PREFIX, thumbprints } }).kind, 'authorized')
    assert.ok(reads <= 2, `the first of the keys was read ${reads} times`)
  })
  test('more than a hundred records for this server are not read, and any number for others are passed over', () => {
    const others = Array.from({ length: 500 }, () => 'other.example; accounturi=x')
    const filling = Array.from({ length: 99 }, () => stranger)
    assert.equal(evaluate([...others, ...filling, RIGHT]).kind, 'authorized')
    assert.deepEqual(evaluate([RIGHT, stranger, ...filling]), {
      kind: 'refused',
      problem: 'unauthorized',
      reason: 'is one of more than 100 for this server, which are too many to read',
      retryable: true,
    })
  })
})

type Row = [what: string, texts: readonly string[], over?: Partial<PersistSubject>]

describe('a record authorizes', () => {
  const rows: Row[] = [
    ['with the account URL', [RIGHT]],
    ['under a second name of this server', [RIGHT.replace('ca.example;', 'ca2.example;')]],
    ['under a name in A-labels', [RIGHT.replace('ca.example;', 'xn--bcher-kva.example;')]],
    ['under a name in capitals', [RIGHT.replace('ca.example;', 'CA.Example;')]],
    ['without white space', [RIGHT.replace('; ', ';')]],
    ['with white space wherever it may stand', [` \tca.example \t; \taccounturi =\t${URL} `]],
    ['with tags in another case', [`ca.example; AccountURI=${URL}; PersistUntil=${NOW_SECONDS + 60}`]],
    ['with parameters that are not known', [`ca.example; x=1; accounturi=${URL}; note=team-7; y=`]],
    ['with the parameters in another order', [`ca.example; policy=wildcard; accounturi=${URL}`]],
    ['with a policy that is not known', [`${RIGHT}; policy=subdomains`]],
    ['with an empty policy', [`${RIGHT}; policy=`]],
    ['that says more than is asked for', [WILD]],
    ['a wildcard with policy=wildcard', [WILD], { wildcard: true }],
    ['a wildcard with policy=WildCard', [`${RIGHT}; Policy=WildCard`], { wildcard: true }],
    ['a name below with policy=wildcard', [WILD], { below: true }],
    ['a wildcard below', [WILD], { below: true, wildcard: true }],
    ['the name itself though wildcards are not allowed', [WILD], { allowWildcardPolicy: false }],
    ['a name below though wildcards are not allowed', [WILD], { below: true, allowWildcardPolicy: false }],
    ['until a moment that has not come', [`${RIGHT}; persistUntil=${NOW_SECONDS + 1}`]],
    ['until the last instant of the calendar', [`${RIGHT}; persistUntil=253402300799`]],
    ['with leading zeros in persistUntil', [`${RIGHT}; persistUntil=000${NOW_SECONDS + 60}`]],
    ['beside records of other services', ['v=spf1 -all', RIGHT, 'other.example; accounturi=https://other.example/1']],
    ['beside malformed ones', ['ca.example; accounturi', RIGHT]],
    ['beside an expired one', [`${RIGHT}; persistUntil=1`, RIGHT]],
    ['beside one for another account', [`ca.example; accounturi=${OTHER}`, RIGHT]],
    ['a wildcard beside one without the policy', [RIGHT, WILD], { wildcard: true }],
    ['among 200 decoys', [...Array.from({ length: 200 }, (_, i) => `decoy${i}.example; a=b`), RIGHT]],
    ['with the URL, draft 02 switched on', [RIGHT], HASHED],
    ['with the hash for its name', [`ca.example; accounturi=${hashed('example.com')}`], HASHED],
    ['with the hash for any name', [`ca.example; accounturi=${hashed('*')}`], HASHED],
    ['with the hash of a former key', [`ca.example; accounturi=${hashed('example.com', FORMER)}`], HASHED],
  ]
  for (const [what, texts, over] of rows)
    test(what, () => assert.equal(evaluate(texts, over).kind, 'authorized', JSON.stringify(evaluate(texts, over))))
})

describe('records that do not name this server are none of its business', () => {
  const rows: Row[] = [
    ['no records', []],
    ['another issuer', [RIGHT.replace('ca.example;', 'other.example;')]],
    ['an issuer below ours', [RIGHT.replace('ca.example;', 'x.ca.example;')]],
    ['an issuer above ours', [RIGHT.replace('ca.example;', 'example;')]],
    ['a name in Unicode', [RIGHT.replace('ca.example;', 'bücher.example;')]],
    ['no issuer', [`; accounturi=${URL}`]],
    ['an empty text', ['']],
    ['another kind of record', ['google-site-verification=abc']],
    ['our name inside other text', ['v=1 ca.example; x=y']],
    ['our name in quotes', [`"ca.example"; accounturi=${URL}`]],
  ]
  for (const [what, texts, over] of rows) test(what, () => assert.deepEqual(evaluate(texts, over), { kind: 'none' }))
})

const TWO_YEARS = `${RIGHT}; persistUntil=1e10`

describe('a record is refused', () => {
  const MALFORMED = ['malformed', false] as const
  const RETRIED = ['unauthorized', true] as const
  const FINAL = ['unauthorized', false] as const
  const by = (uri: string) => `ca.example; accounturi=${uri}`
  type Refused = [...Row, verdict: typeof MALFORMED | typeof RETRIED | typeof FINAL, reason: RegExp]
  const rows: Refused[] = [
    ['our name alone', ['ca.example'], {}, MALFORMED, /has no accounturi/],
    ['no accounturi', ['ca.example; policy=wildcard'], {}, MALFORMED, /has no accounturi/],
    ['an empty accounturi', ['ca.example; accounturi='], {}, MALFORMED, /has no accounturi/],
    ['two accounturis', [`${RIGHT}; accounturi=${URL}`], {}, MALFORMED, /parameter twice/],
    ['two spellings of one tag', [`${RIGHT}; Policy=wildcard; policy=x`], {}, MALFORMED, /parameter twice/],
    ['an unknown parameter twice', [`${RIGHT}; x=1; x=1`], {}, MALFORMED, /parameter twice/],
    ['a parameter without =', [`${RIGHT}; wildcard`], {}, MALFORMED, /issue value/],
    ['a trailing semicolon', [`${RIGHT};`], {}, MALFORMED, /issue value/],
    ['a dot behind our name', [RIGHT.replace('ca.example;', 'ca.example.;')], {}, MALFORMED, /issue value/],
    ['a blank inside a value', [`ca.example; accounturi=${URL} x`], {}, MALFORMED, /issue value/],
    ['octets beyond ASCII', [`${RIGHT}; note=caf\u00e9`], {}, MALFORMED, /issue value/],
    ['a line break', [`${RIGHT}\n`], {}, MALFORMED, /issue value/],
    ['another account', [`ca.example; accounturi=${OTHER}`], {}, RETRIED, /another account/],
    ['the account URL in capitals', [RIGHT.replace('/acct', '/ACCT')], {}, RETRIED, /another account/],
    ['the host in capitals', [RIGHT.replace('//ca', '//CA')], {}, RETRIED, /another account/],
    ['a slash behind it', [`${RIGHT}/`], {}, RETRIED, /another account/],
    ['another scheme', [RIGHT.replace('https', 'http')], {}, RETRIED, /another account/],
    ['an explicit port', [RIGHT.replace('ca.example/', 'ca.example:443/')], {}, RETRIED, /another account/],
    ['percent signs', [RIGHT.replace('acct', '%61cct')], {}, RETRIED, /another account/],
    ['an empty persistUntil', [`${RIGHT}; persistUntil=`], {}, MALFORMED, /persistUntil/],
    ['a date', [`${RIGHT}; persistUntil=2027-01-01`], {}, MALFORMED, /persistUntil/],
    ['a negative time', [`${RIGHT}; persistUntil=-1`], {}, MALFORMED, /persistUntil/],
    ['a plus sign', [`${RIGHT}; persistUntil=+${NOW_SECONDS}9`], {}, MALFORMED, /persistUntil/],
    ['a fraction', [`${RIGHT}; persistUntil=${NOW_SECONDS + 9}.5`], {}, MALFORMED, /persistUntil/],
    ['an exponent', [TWO_YEARS], {}, MALFORMED, /persistUntil/],
    ['hexadecimal digits', [`${RIGHT}; persistUntil=0x7fffffff`], {}, MALFORMED, /persistUntil/],
    ['milliseconds', [`${RIGHT}; persistUntil=${NOW_SECONDS + 9}000`], {}, MALFORMED, /persistUntil/],
    ['a second too late', [`${RIGHT}; persistUntil=${NOW_SECONDS}`], {}, FINAL, /expired/],
    ['the epoch', [`${RIGHT}; persistUntil=0`], {}, FINAL, /expired/],
    ['a wildcard without policy', [RIGHT], { wildcard: true }, FINAL, /wildcard name needs/],
    ['another policy', [`${RIGHT}; policy=wild`], { wildcard: true }, FINAL, /wildcard name needs/],
    ['a list of policies', [`${RIGHT}; policy=wildcard,x`], { wildcard: true }, FINAL, /needs/],
    ['a name below without policy', [RIGHT], { below: true }, FINAL, /name below needs/],
    [
      'a wildcard where none is allowed',
      [WILD],
      { wildcard: true, allowWildcardPolicy: false },
      FINAL,
      /does not allow/,
    ],
    ['a hash while draft 01 counts', [by(hashed('example.com'))], {}, RETRIED, /./],
    ['a hash for another name', [by(hashed('example.org'))], HASHED, RETRIED, /another/],
    [
      'a hash for the name below',
      [`ca.example; accounturi=${hashed('www.example.com')}; policy=wildcard`],
      { ...HASHED, below: true },
      RETRIED,
      /another/,
    ],
    [
      'a hash under a key the account never had',
      [by(hashed('*', THUMBPRINT.replace('Nz', 'Lz')))],
      HASHED,
      RETRIED,
      /another/,
    ],
    ['a hash of another account', [by(hashed('*', THUMBPRINT, OTHER))], HASHED, RETRIED, /another/],
    [
      'a hash by another algorithm',
      [`ca.example; accounturi=${PREFIX}sha-512/${'A'.repeat(86)}`],
      HASHED,
      MALFORMED,
      /hashed/,
    ],
  ]
  for (const [what, texts, over, [problem, retryable], reason] of rows)
    test(`for ${what}: ${problem}`, () => {
      const verdict = evaluate(texts, over)
      assert.ok(verdict.kind === 'refused', JSON.stringify(verdict))
      assert.deepEqual([verdict.problem, verdict.retryable], [problem, retryable], verdict.reason)
      assert.match(verdict.reason, reason)
    })
})

describe('of several refused records the client is told of the closest', () => {
  const another = `ca.example; accounturi=${OTHER}`
  const expired = `${RIGHT}; persistUntil=1`
  test('an expired one of its own before a malformed one and one of another account', () => {
    for (const texts of [
      [another, 'ca.example', expired],
      [expired, 'ca.example', another],
    ])
      assert.match(JSON.stringify(evaluate(texts)), /has expired/)
  })
  test('a malformed one before one of another account', () =>
    assert.match(JSON.stringify(evaluate([another, 'ca.example'])), /no accounturi/))
})

describe('the lifetime (draft 01 §7.8, draft 02 §7.9)', () => {
  const lifetime = (text: string, ttlSeconds: number, over: Partial<PersistSubject> = {}) => {
    const verdict = evaluate([text], over, ttlSeconds)
    assert.ok(verdict.kind === 'authorized')
    return verdict.validForSeconds
  }
  const until = (seconds: number) => `; persistUntil=${NOW_SECONDS + seconds}`
  const rows: [
    what: string,
    text: string,
    ttl: number,
    expected: number | undefined,
    over?: Partial<PersistSubject>,
  ][] = [
    ['is the TTL', RIGHT, 7200, 7200],
    ['is short for a TTL of zero, and not nothing', RIGHT, 0, MIN_LIFETIME_SECONDS],
    ['counts a TTL with the upper bit as zero (RFC 2181 §8)', RIGHT, 0x8000_0000, MIN_LIFETIME_SECONDS],
    ['can be years', RIGHT, 0x7fff_ffff, 0x7fff_ffff],
    ['ends with persistUntil before the TTL', RIGHT + until(100), 7200, 99],
    ['ends with the TTL before persistUntil', RIGHT + until(9000), 7200, 7200],
    ['ends with persistUntil however soon that is', RIGHT + until(5), 0, 4],
    ['is not bound by the TTL under a hash', `ca.example; accounturi=${hashed('*')}`, 300, undefined, HASHED],
    ['is bound by persistUntil under a hash', `ca.example; accounturi=${hashed('*')}${until(100)}`, 9, 99, HASHED],
    ['is bound by the TTL under the URL in draft 02 too', RIGHT, 300, 300, HASHED],
  ]
  for (const [what, text, ttl, expected, over] of rows)
    test(what, () => assert.equal(lifetime(text, ttl, over), expected))

  test('is that of the record that grants most', () => {
    const verdict = evaluate([RIGHT + until(100), RIGHT + until(1000), RIGHT + until(10)])
    assert.ok(verdict.kind === 'authorized')
    assert.equal(verdict.validForSeconds, 999)
    assert.equal(verdict.text, RIGHT + until(1000))
  })

  test('never reaches past persistUntil', () =>
    forAnyInput(fc.integer({ min: 1, max: 1e9 }), fc.integer({ min: 0, max: 0x7fff_ffff }), (seconds, ttl) => {
      const granted = lifetime(RIGHT + until(seconds), ttl) ?? Number.POSITIVE_INFINITY
      assert.ok(granted >= 0 && NOW.getTime() / 1000 + granted <= NOW_SECONDS + seconds)
    }))
})

describe('whatever is published', () => {
  const subjects = fc.record({ below: fc.boolean(), wildcard: fc.boolean(), allowWildcardPolicy: fc.boolean() })
  const noise = fc.uint8Array({ maxLength: 200 }).map((octets) => Buffer.from(octets).toString('latin1'))
  const near = fc
    .array(
      fc.constantFrom(RIGHT, 'ca.example', `accounturi=${URL}`, ';', ' ', 'policy=wildcard', 'persistUntil=', '9'),
      { maxLength: 12 },
    )
    .map((parts) => parts.join(''))
  const texts = fc.array(fc.oneof(noise, near), { maxLength: 8 })

  test('there is a verdict, and nothing of the records in what the client reads', () =>
    forAnyInput(texts, subjects, (published, over) => {
      const verdict = evaluate(published, over)
      if (verdict.kind !== 'refused') return
      assert.match(verdict.reason, /^(is|has|lacks|cannot) [\x20-\x7e§]+$/)
      assert.ok(verdict.reason.length < 200)
    }))

  test('only a record with our name and the very account URL authorizes', () =>
    forAnyInput(texts, subjects, (published, over) => {
      const verdict = evaluate(published, over)
      if (verdict.kind !== 'authorized') return
      assert.match(verdict.text, /^[ \t]*ca\.example[ \t]*;/)
      assert.ok(verdict.text.includes(`accounturi=${URL}`))
      if (over.wildcard || over.below) assert.match(verdict.text, /policy=wildcard/)
      if (over.wildcard) assert.ok(over.allowWildcardPolicy)
    }))

  test('decoys beside a right record change nothing', () =>
    forAnyInput(texts, fc.nat(8), (decoys, at) => {
      const published = decoys.toSpliced(at, 0, WILD)
      assert.equal(evaluate(published, { wildcard: true, below: true }).kind, 'authorized')
    }))
})

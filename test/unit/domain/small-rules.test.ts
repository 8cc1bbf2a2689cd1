/** Rules of some lines: revocation reasons, retry delays, profiles, names, searches, passwords, parts of a CRL. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { type AccountNaming, accountName } from '../../../src/admin/certificates/account-list.ts'
import { newestWithinAnswer } from '../../../src/admin/profiles/profile-trial-endpoints.ts'
import { passwordFault } from '../../../src/admin/users/passwords.ts'
import type { CertificateProfile } from '../../../src/domain/certificate-profile.ts'
import { COMPLETE, crlName, octetsOf, shardOf } from '../../../src/domain/crl-scope.ts'
import { chooseProfile } from '../../../src/domain/order-request.ts'
import { renewalAttempt } from '../../../src/domain/renewal-window.ts'
import { checkRevocationReason } from '../../../src/domain/revocation.ts'
import { coveringNames, readSearch } from '../../../src/domain/search-text.ts'
import { retryDelayMs, type ValidationPolicy } from '../../../src/domain/validation-attempt.ts'
import { Problem } from '../../../src/shared/protocol/problem.ts'
import { forAll } from '../../support/property-runs.ts'
import { problemOf } from '../../support/refusals.ts'
import { words } from '../../support/words.ts'

test('reasons 0, 1, 3, 4, 5 and 9 are accepted, none is 0, all others are badRevocationReason', () => {
  assert.equal(checkRevocationReason(undefined), 0)
  const accepted = Array.from({ length: 14 }, (_, i) => i - 1).filter((reason) => {
    try {
      return checkRevocationReason(reason) === reason
    } catch (error) {
      assert.ok(error instanceof Problem && error.type === 'badRevocationReason')
      return false
    }
  })
  assert.deepEqual(accepted, [0, 1, 3, 4, 5, 9])
})

test('the delay before another validation doubles up to its bound (RFC 8555 §8.2)', () => {
  const policy = { backoffBaseMs: 1000, backoffMaxMs: 5000 } as ValidationPolicy
  const found = [1, 2, 3, 4, 50].map((tries) => retryDelayMs(tries, policy))
  assert.deepEqual(found, [1000, 2000, 4000, 5000, 5000])
})

test('an order without a profile gets the default, an unknown one is invalidProfile', () => {
  const profile = (name: string) => [name, { name } as CertificateProfile] as const
  const profiles = new Map([profile('default'), profile('short')])
  assert.equal(chooseProfile(profiles, undefined).name, 'default')
  assert.equal(chooseProfile(profiles, 'short').name, 'short')
  for (const name of ['', 'Short', 'toString'])
    assert.throws(() => chooseProfile(profiles, name), problemOf('invalidProfile'))
})

const all: AccountNaming = {
  id: '01900000-0000-7000-8000-00000000abcd',
  label: 'Payments',
  contacts: ['mailto:ops@example.com', 'mailto:second@example.com'],
  eabKid: 'team-a',
}

describe('the name of an account', () => {
  const cases: readonly (readonly [string, Partial<AccountNaming>, string])[] = [
    ['is its label', {}, 'Payments'],
    ['is else its first contact without the scheme', { label: null }, 'ops@example.com'],
    ['is else its key identifier', { label: null, contacts: [] }, 'team-a'],
    ['is else the end of its id', { label: null, contacts: [], eabKid: null }, '00000000abcd'],
  ]
  for (const [title, missing, expected] of cases)
    test(title, () => assert.equal(accountName({ ...all, ...missing }), expected))
})

const [earlier, later] = [new Date(1_000), new Date(2_000)]

for (const [what, orderedAt, failedAt, attempt] of [
  ['without an order and without a failure nobody came', undefined, undefined, 'none'],
  ['an order counts until something fails', earlier, undefined, 'ordered'],
  ['a failure after the order is its end', earlier, later, 'failed'],
  ['a refused order is a failure alone', undefined, earlier, 'failed'],
  ['an order after the failure is another attempt', later, earlier, 'ordered'],
] as const)
  test(what, () => assert.equal(renewalAttempt(orderedAt, failedAt), attempt))

const example = (names: number, serial = 0) => ({
  serial,
  certificate: { names: Array.from({ length: names }, (_, number) => `${number}.${'x'.repeat(240)}.test`) },
  violations: ['0 common names; the minimum is 1'],
})

test('fifty small examples are all shown', () => {
  const examples = Array.from({ length: 50 }, () => example(1))
  assert.deepEqual(newestWithinAnswer(examples), examples)
})

test('an example with too many names is passed over', () =>
  assert.deepEqual(newestWithinAnswer([example(1_000), example(1)]), [example(1)]))

test('of examples with many names the newest are shown, in under 64 KB', () => {
  const examples = Array.from({ length: 50 }, (_, serial) => example(100, serial))
  const shown = newestWithinAnswer(examples)
  assert.deepEqual(shown, examples.slice(0, 1))
  assert.ok(JSON.stringify(shown).length < 64 * 1024)
})

describe('a text in the search field', () => {
  test('is a name in A-labels, however it is typed', () => {
    for (const typed of ['Bücher.example', 'xn--bcher-kva.EXAMPLE', ' .bücher.example ', 'bücher.example.'])
      assert.equal(readSearch(typed).name, 'xn--bcher-kva.example', typed)
    assert.equal(readSearch('*.Shop.test').name, '*.shop.test')
    assert.equal(readSearch('2001:DB8:0:0::1').name, '2001:db8::1')
  })

  test('is another name of a certificate where it is no DNS name and no address', () => {
    assert.equal(readSearch(' Jane  DOE ').name, 'jane doe')
    assert.equal(readSearch('Ops@SHOP.test').name, 'ops@shop.test')
  })

  test('is the beginning of a serial number or fingerprint, with or without colons and spaces', () => {
    for (const typed of ['0A1B2C', '0a:1b:2c', '0A 1B 2C']) assert.equal(readSearch(typed).hex, '0a1b2c', typed)
    for (const typed of ['abc', 'xyz1', 'f'.repeat(65)]) assert.equal(readSearch(typed).hex, undefined, typed)
  })

  test('is an id in either case', () => {
    const id = '01938c4e-0000-7000-8000-00000000abcd'
    assert.equal(readSearch(id.toUpperCase()).id, id)
    assert.equal(readSearch(id.slice(1)).id, undefined)
  })
})

test('a name is covered by itself and by the wildcard beside it', () => {
  assert.deepEqual(coveringNames('www.shop.test'), ['www.shop.test', '*.shop.test'])
  for (const alone of ['*.shop.test', 'localhost', '192.0.2.1']) assert.deepEqual(coveringNames(alone), [alone])
})

const CONTEXT = ['ada.lovelace', 'ada.lovelace@corp.example']
const isTaken = (password: string) => passwordFault(password, CONTEXT) === undefined

test('length is what counts: words, spaces and other scripts are fine', () => {
  for (const good of [
    'vacant orchid tram 61',
    'tGz8fQpL2xVw9sKd',
    'зелёный трамвай утром',
    '正しい馬電池ホッチキスの歌は長い',
  ])
    assert.ok(isTaken(good), good)
})

test('too short and too long are refused with the bound', () => {
  assert.match(passwordFault('tGz8fQpL2xVw9s', CONTEXT) ?? '', /at least 15/)
  assert.match(passwordFault('tGz8fQpL'.repeat(33), CONTEXT) ?? '', /at most 256/)
})

test('what every guesser tries is refused', () => {
  for (const bad of words`
    passwordpassword Password1234567890 qwertyuiopasdfghjkl aaaaaaaaaaaaaaaaaaaa abcabcabcabcabcabcabc
    abcdefghijklmnopqrstuvwxyz Chancery-Admin-2026! ada.lovelace.corp.example LovelaceLovelace99
    letmein-welcome-secret
  `)
    assert.ok(!isTaken(bad), bad)
})

test('the last two octets of the serial number decide, whatever stands before them', () => {
  assert.equal(shardOf(Buffer.from('ff0000000103', 'hex'), 256), 3)
  assert.equal(shardOf(Buffer.of(5), 4), 1, 'of a former server that counted')
  forAll(fc.uint8Array({ maxLength: 18 }), fc.nat(0xffff), fc.integer({ min: 1, max: 1024 }), (front, tail, shards) => {
    const serial = Buffer.concat([front, Buffer.of(tail >> 8, tail & 0xff)])
    assert.equal(shardOf(serial, shards), tail % shards)
  })
})

test('a part is counted and read by the last octets that its serial numbers can have', () => {
  assert.deepEqual(octetsOf(COMPLETE), [[0, 255]])
  assert.deepEqual(octetsOf({ shards: 128, shard: 3 }), [
    [3, 3],
    [131, 131],
  ])
  assert.deepEqual(octetsOf({ shards: 1024, shard: 259 }), [[3, 3]])
  assert.equal(octetsOf({ shards: 12, shard: 7 }).length, 64)
  forAll(fc.nat(0xffff), fc.integer({ min: 1, max: 1024 }), (tail, shards) => {
    const serial = Buffer.of(tail >> 8, tail & 0xff)
    const own = octetsOf({ shards, shard: shardOf(serial, shards) })
    assert.ok(own.some(([first, last]) => serial[1]! >= first && serial[1]! <= last))
  })
})

test('a complete list goes by its issuer, a part by count and number too', () => {
  assert.equal(crlName('default', COMPLETE), 'default')
  assert.equal(crlName('default', { shards: 16, shard: 3 }), 'default/16-3')
})

/** Allowed identifiers, and from where a request may be approved without a challenge. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { type ApprovalFacts, approvalOf, isAllowed, parseAllowedIdentifier } from '../../../src/domain/allowlist.ts'
import { chooseProfile } from '../../../src/domain/order-request.ts'
import { certificateProfiles } from '../../../src/settings/order-settings.ts'
import type { Identifier } from '../../../src/shared/protocol/identifier.ts'
import { forAll } from '../../support/property-runs.ts'
import { words } from '../../support/words.ts'
import { aConfig } from '../config/support.ts'

const identifierOf = (value: string): Identifier => ({ type: /^[\d.]+$|:/.test(value) ? 'ip' : 'dns', value })

describe('allowed identifiers', () => {
  const forms: [text: string, type: string, value: string][] = [
    [' Host.Example ', 'dns', 'host.example'],
    ['*.Example', 'dns', '*.example'],
    ['host.example.', 'dns', 'host.example'],
    ['bücher.example', 'dns', 'xn--bcher-kva.example'],
    ['192.0.2.1', 'ip', '192.0.2.1'],
    ['2001:DB8:0::1', 'ip', '2001:db8::1'],
    ['10.0.0.0/8', 'ip', '10.0.0.0/8'],
    ['2001:DB8::/32', 'ip', '2001:db8::/32'],
    ['0.0.0.0/0', 'ip', '0.0.0.0/0'],
    ['192.0.2.1/32', 'ip', '192.0.2.1/32'],
  ]
  for (const [text, type, value] of forms)
    test(`${JSON.stringify(text)} is the ${type} identifier ${value}`, () =>
      assert.deepEqual(parseAllowedIdentifier(text), { ok: true, identifier: { type, value } }))

  const refused = [
    '',
    'a b',
    ...words`
      * *. a.*.example *.*.example a..example example.. . -a.example 300.0.2.1 10.0.0.1/8 10.0.0.0/33 10.0.0.0/
      10.0.0.0/08 10.0.0.0/8/8 ::/129 fe80::1%eth0 ::ffff:192.0.2.1 example/24
    `,
  ]
  for (const text of refused)
    test(`${JSON.stringify(text)} is refused with a reason`, () => {
      const parsed = parseAllowedIdentifier(text)
      assert.ok(!parsed.ok && parsed.reason.length > 0)
    })

  const matches: [entry: string, identifier: string, allowed: boolean][] = [
    ['example.com', 'example.com', true],
    ['example.com', 'a.example.com', false],
    // A wildcard certificate speaks for names that an exact entry does not name.
    ['example.com', '*.example.com', false],
    ['*.example.com', '*.example.com', true],
    ['*.example.com', '*.a.example.com', true],
    ['*.example.com', 'example.com', true],
    ['*.example.com', '*.com', false],
    ['*.example.com', 'badexample.com', false],
    ['10.0.0.0/9', '10.127.255.255', true],
    ['10.0.0.0/9', '10.128.0.0', false],
    ['10.0.0.1/32', '10.0.0.1', true],
    ['10.0.0.1/32', '10.0.0.0', false],
    ['::/0', '2001:db8::1', true],
    ['::/0', '10.0.0.1', false],
    ['2001:db8::/127', '2001:db8::1', true],
    ['2001:db8::/127', '2001:db8::2', false],
  ]
  for (const [entry, value, allowed] of matches)
    test(`${entry} ${allowed ? 'allows' : 'does not allow'} ${value}`, () => {
      const parsed = parseAllowedIdentifier(entry)
      assert.ok(parsed.ok)
      assert.equal(isAllowed(identifierOf(value), [parsed.identifier]), allowed)
    })

  test('an empty list allows nothing, and a longer list never less', () => {
    assert.equal(isAllowed(identifierOf('a.example'), []), false)
    const list = ['b.example', '*.a.example'].map(identifierOf)
    assert.equal(isAllowed(identifierOf('x.a.example'), list), true)
  })

  test('what is accepted is its own normal form; nothing throws', () => {
    const text = fc.oneof(
      fc.string(),
      fc.domain(),
      fc.ipV4(),
      fc.ipV6(),
      fc.tuple(fc.ipV4(), fc.nat(40)).map((pair) => pair.join('/')),
    )
    forAll(text, (entry) => {
      const parsed = parseAllowedIdentifier(entry)
      if (!parsed.ok) return
      assert.deepEqual(parseAllowedIdentifier(parsed.identifier.value), parsed)
      const { type, value } = parsed.identifier
      assert.equal(isAllowed({ type, value: value.replace(/\/\d+$/, '') }, [parsed.identifier]), true)
    })
  })

  test('networks agree with arithmetic on the addresses', () => {
    const number = fc.integer({ min: 0, max: 0xffff_ffff })
    const dotted = (value: number) => [24, 16, 8, 0].map((shift) => (value >>> shift) & 255).join('.')
    forAll(number, number, fc.integer({ min: 0, max: 32 }), (base, address, prefix) => {
      const mask = prefix === 0 ? 0 : (0xffff_ffff << (32 - prefix)) >>> 0
      const network = (base & mask) >>> 0
      const near = ((network | (address & ~mask)) >>> 0) % 0x1_0000_0000
      const parsed = parseAllowedIdentifier(`${dotted(network)}/${prefix}`)
      assert.ok(parsed.ok)
      for (const candidate of [address, near])
        assert.equal(
          isAllowed({ type: 'ip', value: dotted(candidate) }, [parsed.identifier]),
          (candidate & mask) >>> 0 === network,
        )
    })
  })
})

const facts = (over: Partial<ApprovalFacts>): ApprovalFacts => ({
  autoAccept: false,
  networks: ['10.0.0.0/8', '192.0.2.7/32', '2001:db8::/32'],
  address: '10.0.0.1',
  isProxy: false,
  requestId: 'request',
  now: new Date('2026-01-02T03:04:05Z'),
  ...over,
})

describe('approval', () => {
  test('names the address, and what the authorization will say', () =>
    assert.deepEqual(approvalOf(facts({})), {
      address: '10.0.0.1',
      record: { type: 'pre-approval', at: '2026-01-02T03:04:05Z', result: 'valid', requestId: 'request' },
    }))

  const addresses: [address: string, seen: string | undefined][] = [
    ['10.255.255.255', '10.255.255.255'],
    ['11.0.0.0', undefined],
    ['192.0.2.7', '192.0.2.7'],
    ['192.0.2.8', undefined],
    ['2001:db8:ffff::1', '2001:db8:ffff::1'],
    ['2001:DB8::1', '2001:DB8::1'],
    ['2001:db9::1', undefined],
    ['::ffff:10.0.0.1', '10.0.0.1'],
    ['::FFFF:10.0.0.1', '10.0.0.1'],
    ['::ffff:0a00:0001', undefined],
    ['fe80::1%eth0', undefined],
    ['10.0.0.1/8', undefined],
    ['10.0.0.01', undefined],
    ['', undefined],
    ['unknown', undefined],
  ]
  for (const [address, seen] of addresses)
    test(`a client at "${address}" is ${seen === undefined ? 'outside' : 'inside'}`, () =>
      assert.equal(approvalOf(facts({ address }))?.address, seen))

  test('what comes from a proxy, in a network or not, is from nobody known', () =>
    assert.equal(approvalOf(facts({ isProxy: true })), undefined))

  test('an account without networks is never looked at', () =>
    assert.equal(approvalOf(facts({ networks: undefined })), undefined))

  test('where everything is accepted, the address does not matter', () => {
    for (const over of [{}, { networks: undefined }, { address: 'unknown' }, { isProxy: true }]) {
      const approval = approvalOf(facts({ ...over, autoAccept: true }))
      assert.deepEqual([approval?.record.type, approval?.address], ['auto_accept', undefined])
    }
  })
})

describe('the profiles of an account', () => {
  const usages = { key_usages: ['digital_signature'], extended_key_usages: ['server_auth'] }
  const profiles = certificateProfiles(aConfig({ ca: { profiles: { default: usages, a: usages, b: usages } } }))
  const choices: [wanted: string | undefined, allowed: string[] | undefined, chosen: string | RegExp][] = [
    [undefined, undefined, 'default'],
    ['a', undefined, 'a'],
    [undefined, ['b', 'a'], 'b'],
    [undefined, ['b', 'default'], 'default'],
    ['a', ['b', 'a'], 'a'],
    ['default', ['b', 'a'], /may not order default; it may order b, a/],
    ['c', ['b'], /there is no such profile/],
    [undefined, ['gone'], /there is no such profile/],
  ]
  for (const [wanted, allowed, chosen] of choices)
    test(`${wanted ?? 'no choice'} of ${allowed?.join(', ') ?? 'all'}`, () => {
      if (typeof chosen === 'string') assert.equal(chooseProfile(profiles, wanted, allowed).name, chosen)
      else assert.throws(() => chooseProfile(profiles, wanted, allowed), chosen)
    })
})

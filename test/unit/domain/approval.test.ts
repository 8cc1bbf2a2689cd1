/** From where a request may be approved without a challenge. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { type ApprovalFacts, approvalOf } from '../../../src/domain/allowlist.ts'
import { chooseProfile } from '../../../src/domain/order-request.ts'
import { certificateProfiles } from '../../../src/settings/order-settings.ts'
import { aConfig } from '../config/support.ts'

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

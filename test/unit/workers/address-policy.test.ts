import assert from 'node:assert/strict'
import { BlockList, isIPv4 } from 'node:net'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { createAddressPolicy, parseAddress, parseNetwork } from '../../../workers/address-policy.ts'
import { forAll, forAnyInput } from '../../support/property-runs.ts'
import { words } from '../../support/words.ts'

const LOCAL = ['127.0.0.0/8', '::1/128', '169.254.0.0/16', 'fe80::/10']

describe('blocked networks', () => {
  const policy = createAddressPolicy(LOCAL)
  const blocked = {
    '127.0.0.1': 'loopback',
    '127.255.255.255': 'the end of the network',
    '169.254.169.254': 'metadata service',
    '::1': 'IPv6 loopback',
    'fe80::1': 'link-local',
    'febf::1': 'the end of fe80::/10',
    '::ffff:127.0.0.1': 'mapped loopback',
    '::ffff:7f00:1': 'mapped loopback in hexadecimal',
    '0:0:0:0:0:ffff:7f00:0001': 'mapped loopback in full',
    '64:ff9b::127.0.0.1': 'NAT64 of loopback',
    '64:ff9b::a9fe:a9fe': 'NAT64 of the metadata service',
    '64:ff9b:1::7f00:1': 'local-use NAT64 as a /96',
    '64:ff9b:1:7f00:0:100::': 'local-use NAT64 as a /48',
    '2002:7f00:1::': '6to4 of loopback',
    '2002:a9fe:a9fe::1': '6to4 of the metadata service',
    '::127.0.0.1': 'IPv4-compatible',
    '::ffff:0:127.0.0.1': 'IPv4-translated',
    '2001:0:4136:e378:8000:63bf:80ff:fffe': 'Teredo of 127.0.0.1',
  }
  for (const [address, what] of Object.entries(blocked))
    test(`${address} is blocked: ${what}`, () => assert.equal(policy.isBlocked(address), true))

  const allowed = words`128.0.0.1 126.255.255.255 10.0.0.1 192.168.1.1 169.253.0.1 ::2 fec0::1 fd00::1`
  const allowedForms = ['::ffff:10.0.0.1', '64:ff9b::8.8.8.8', '2002:808:808::1', '2001:db8::1']
  for (const address of [...allowed, ...allowedForms])
    test(`${address} is allowed`, () => assert.equal(policy.isBlocked(address), false))

  test('an IPv4 rule written as a mapped IPv6 network blocks the IPv4 addresses', () =>
    assert.equal(createAddressPolicy(['::ffff:10.0.0.0/104']).isBlocked('10.1.2.3'), true))
  test('::/0 blocks IPv6 and leaves IPv4 alone', () => {
    const noIpv6 = createAddressPolicy(['::/0'])
    assert.equal(noIpv6.isBlocked('2001:db8::1'), true)
    assert.equal(noIpv6.isBlocked('192.0.2.1'), false)
  })
  test('a single address is a network of one', () => {
    const one = createAddressPolicy(['192.0.2.7'])
    assert.deepEqual([one.isBlocked('192.0.2.7'), one.isBlocked('192.0.2.6')], [true, false])
  })
  for (const address of ['0.0.0.0', '0.1.2.3', '224.0.0.1', '255.255.255.255', '::', 'ff02::1', '::ffff:0.0.0.0'])
    test(`${address} is blocked with an empty list: nobody serves there`, () =>
      assert.equal(createAddressPolicy([]).isBlocked(address), true))
  for (const address of ['127.0.0.1', '::1', '::ffff:127.0.0.1'])
    test(`${address} is allowed with an empty list`, () =>
      assert.equal(createAddressPolicy([]).isBlocked(address), false))
  for (const text of ['', 'example.org', '127.1', '0x7f.0.0.1', '1.2.3.4.5', 'fe80::1%eth0', '::1/128'])
    test(`what is not an address (${JSON.stringify(text)}) is blocked`, () =>
      assert.equal(policy.isBlocked(text), true))
})

describe('networks in CIDR notation', () => {
  for (const text of words`10.0.0.0/33 ::/129 10.0.0.0/ 10.0.0.0/08 10.0.0.0/8/8 10.0.0/8 x /8 ::1/-1`)
    test(`${text} is refused`, () => {
      assert.equal(parseNetwork(text), undefined)
      assert.throws(() => createAddressPolicy([text]), RangeError)
    })

  test('any IPv4 or IPv6 network and address: the same verdict as the platform', () => {
    const network = fc.oneof(
      fc.tuple(fc.ipV4(), fc.integer({ min: 0, max: 32 })),
      fc.tuple(fc.ipV6(), fc.integer({ min: 0, max: 128 })),
    )
    forAnyInput(network, fc.oneof(fc.ipV4(), fc.ipV6()), ([base, prefix], address) => {
      const family = (text: string) => (isIPv4(text) ? 'ipv4' : 'ipv6')
      const list = new BlockList()
      list.addSubnet(base, prefix, family(base))
      // Ours blocks more (embedded and useless addresses), never less.
      if (family(base) !== family(address) || !list.check(address, family(address))) return
      assert.equal(createAddressPolicy([`${base}/${prefix}`]).isBlocked(address), true)
    })
  })

  test('an address outside the network and of no special form is allowed', () =>
    forAll(fc.integer({ min: 0, max: 255 }), fc.integer({ min: 9, max: 32 }), (last, prefix) =>
      assert.equal(createAddressPolicy([`10.0.0.0/${prefix}`]).isBlocked(`11.0.0.${last}`), false),
    ))

  test('every spelling of an IPv6 address gives the same bytes', () => {
    for (const text of ['2001:db8::1', '2001:0db8:0:0:0:0:0:1', '2001:DB8::0.0.0.1'])
      assert.deepEqual(parseAddress(text), parseAddress('2001:db8:0:0:0::1'))
  })
})

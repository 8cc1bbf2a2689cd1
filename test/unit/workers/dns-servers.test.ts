import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { createSourceFinder, parseNameServer, parseResolvConf } from '../../../workers/dns/servers.ts'
import { each } from '../../support/each.ts'
import { words } from '../../support/words.ts'

describe('resolver entries', () => {
  const good: Record<string, { address: string; port: number }> = {
    '192.0.2.1': { address: '192.0.2.1', port: 53 },
    '192.0.2.1:5353': { address: '192.0.2.1', port: 5353 },
    '2001:db8::1': { address: '2001:db8::1', port: 53 },
    '[2001:db8::1]': { address: '2001:db8::1', port: 53 },
    '[2001:db8::1]:5353': { address: '2001:db8::1', port: 5353 },
  }
  for (const [text, server] of Object.entries(good))
    test(`${text} is ${server.address} port ${server.port}`, () => assert.deepEqual(parseNameServer(text), server))
  for (const text of [
    '',
    ...words`dns.example 192.0.2.1: 192.0.2.1:0 192.0.2.1:65536 [192.0.2.1]:53 [::1 ::1]:53 192.0.2`,
  ])
    test(`${JSON.stringify(text)} is refused`, () => assert.equal(parseNameServer(text), undefined))
})

describe('resolv.conf', () => {
  test('nameserver lines are read, the rest is not', () => {
    const text =
      '# nameserver 192.0.2.9\nsearch example.org\nnameserver 192.0.2.1\n  nameserver\t2001:db8::1 # x\nnameserver name\n'
    assert.deepEqual(each(parseResolvConf(text), 'address'), ['192.0.2.1', '2001:db8::1'])
  })
  test('without a nameserver it is this host', () =>
    assert.deepEqual(parseResolvConf('options edns0\n'), [{ address: '127.0.0.1', port: 53 }]))
})

describe('zones', () => {
  const sourceOf = createSourceFinder({
    resolvers: ['192.0.2.1'],
    timeoutMs: 1000,
    retries: 0,
    zones: [
      { zone: 'test', addresses: ['127.0.0.1', '::1'] },
      { zone: 'corp.test.', resolvers: ['192.0.2.2'] },
      { zone: 'EXAMPLE', resolvers: ['192.0.2.3:5353'] },
    ],
  })
  const server = (name: string) => {
    const { fixed, servers } = sourceOf(name)
    return fixed ? [...fixed.ipv4, ...fixed.ipv6].join() : servers.map(({ address }) => address).join()
  }
  const expected: Record<string, string> = {
    'demo.test': '127.0.0.1,::1',
    test: '127.0.0.1,::1',
    'www.corp.test': '192.0.2.2',
    'corp.test': '192.0.2.2',
    'xcorp.test': '127.0.0.1,::1',
    contest: '192.0.2.1',
    'a.example': '192.0.2.3',
    'example.org': '192.0.2.1',
  }
  for (const [name, servers] of Object.entries(expected))
    test(`${name} is answered by ${servers}`, () => assert.equal(server(name), servers))
  test('a resolver or an address that is none is refused', () => {
    assert.throws(() => createSourceFinder({ resolvers: ['x'], zones: [], timeoutMs: 1, retries: 0 }), RangeError)
    assert.throws(
      () => createSourceFinder({ resolvers: [], zones: [{ zone: 'a', addresses: ['x'] }], timeoutMs: 1, retries: 0 }),
      RangeError,
    )
  })
})

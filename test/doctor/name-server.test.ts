/** What `chancery doctor` says of a name server, by one question to a real one. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { askNameServer } from '../../src/doctor/facts/reach.ts'
import { a, startDns } from '../workers/scripted-dns.ts'

test('a datagram that is lost is sent again (RFC 1035 §4.2.1)', async (t) => {
  const dns = await startDns(({ name }) => (dns.asked.length === 1 ? 'drop' : { answers: [a(name, '192.0.2.1')] }))
  t.after(() => dns.close())
  const { response, failure } = await askNameServer(dns.resolver, 'www.corp.test', 'A')
  assert.equal(failure, undefined)
  assert.equal(response?.answers.length, 1)
})

test('a name server that says nothing is said to be silent', async (t) => {
  const dns = await startDns(() => 'drop')
  t.after(() => dns.close())
  const { failure } = await askNameServer(dns.resolver, 'www.corp.test', 'A')
  assert.equal(failure, 'no answer within 6 s')
})

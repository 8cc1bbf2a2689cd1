/** The command that repeats a failed validation, and that no text of a client becomes part of a shell's command. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { commandFor, explainFailure } from '../../../src/domain/failure-advice.ts'
import { words } from '../../support/words.ts'

const failed = (challenge_type: string, problem: string, identifier_value = 'www.shop.test') => ({
  kind: 'challenge.on_failure',
  data: { challenge_type, problem, identifier_value, token: 'a-_b', error: 'it failed' },
})

describe('the command of a failure', () => {
  const COMMANDS: Record<string, [ReturnType<typeof failed>, string | undefined]> = {
    'http-01': [failed('http-01', 'unauthorized'), 'curl -v http://www.shop.test/.well-known/acme-challenge/a-_b'],
    'http-01 of an IPv6 address': [
      failed('http-01', 'connection', '2001:db8::1'),
      'curl -v http://[2001:db8::1]/.well-known/acme-challenge/a-_b',
    ],
    'a host that does not resolve': [failed('http-01', 'dns'), 'dig www.shop.test A www.shop.test AAAA'],
    'dns-01': [failed('dns-01', 'unauthorized'), 'dig TXT _acme-challenge.www.shop.test'],
    'dns-01 of a zone that does not answer': [failed('dns-01', 'dns'), 'dig TXT _acme-challenge.www.shop.test'],
    'dns-01 of a wildcard': [failed('dns-01', 'unauthorized', '*.shop.test'), 'dig TXT _acme-challenge.shop.test'],
    'dns-account-01 without evidence': [failed('dns-account-01', 'unauthorized'), undefined],
    'dns-persist-01': [failed('dns-persist-01', 'unauthorized'), 'dig TXT _validation-persist.www.shop.test'],
    'tls-alpn-01': [
      failed('tls-alpn-01', 'tls'),
      'openssl s_client -alpn acme-tls/1 -servername www.shop.test -connect www.shop.test:443 </dev/null',
    ],
    'tls-alpn-01 of an address': [failed('tls-alpn-01', 'tls', '192.0.2.1'), undefined],
    'CAA records': [failed('http-01', 'caa'), 'dig CAA www.shop.test'],
  }
  for (const [title, [failure, command]] of Object.entries(COMMANDS))
    test(`for ${title}`, () => assert.equal(explainFailure(failure).command, command))

  test('has the port and the record of the evidence', () => {
    const record = '_abc._acme-challenge.www.shop.test'
    assert.match(explainFailure(failed('http-01', 'connection'), { port: 5002 }).command ?? '', /www\.shop\.test:5002/)
    assert.equal(explainFailure(failed('dns-account-01', 'dns'), { record }).command, `dig TXT ${record}`)
    assert.equal(explainFailure(failed('dns-account-01', 'dns'), { record: 'a;b' }).command, undefined)
  })

  test('is absent for a refused order', () => {
    const data = { rejected_identifiers: [{ type: 'dns', value: 'www.shop.test' }] }
    assert.equal(explainFailure({ kind: 'order.rejected', data }).command, undefined)
  })

  test('never has a name or token that a shell would read otherwise', () => {
    const names = words`$(id) a;b -o/tmp/x a|b a'b a/b * a&b ~`
    for (const name of ['', 'a b', 'a\nb', '`id`', 'a'.repeat(254), ...names])
      for (const challenge of ['http-01', 'dns-01', 'dns-persist-01', 'tls-alpn-01'])
        assert.equal(commandFor({ problem: 'unauthorized', name, challenge, token: 't' }), undefined, name)
    const asked = { problem: 'unauthorized', name: 'a.test', challenge: 'http-01' }
    for (const token of ['$(id)', 'a b', "'", undefined])
      assert.equal(commandFor({ ...asked, token }), 'curl -v http://a.test/.well-known/acme-challenge/TOKEN')
  })
})

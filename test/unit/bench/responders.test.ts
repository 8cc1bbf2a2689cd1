/** What the responders of the bench answer, as the validators of the service read it. */

import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { describe, test } from 'node:test'
import dnsPacket from 'dns-packet'
import { newKey } from '../../../bench/client/jws.ts'
import type { Account } from '../../../bench/client/resources.ts'
import { answerQuery, certificateMaker } from '../../../bench/responder/responders.ts'
import { proofFor } from '../../../bench/scenario/issue.ts'
import { accountLabel } from '../../../src/shared/protocol/account-labels.ts'
import { buildQuery, parseResponse } from '../../../workers/dns/dns-message.ts'
import { checkAcmeCertificate } from '../../../workers/validate/acme-certificate.ts'

const pem = (text: string) => Buffer.from(text.replaceAll(/-----.*-----|\s/g, ''), 'base64')

describe('the name server', () => {
  const proofs = new Map([['_acme-challenge.b1-0-0.test', 'digest']])
  const ask = (name: string, type: 'A' | 'AAAA' | 'TXT' | 'CAA') => {
    const query = buildQuery(name, type, { edns: true, dnssec: false, recursion: true })
    const response = parseResponse(answerQuery(query.bytes, '127.0.0.1', proofs) as Buffer, query)
    assert.ok(response)
    const texts = response.answers.map((answer) => ('record' in answer ? String(answer.record.data) : answer.cname))
    return { ...response, texts }
  }

  test('gives every name the address, and the records that were published', () => {
    assert.deepEqual(ask('b1-0-0.test', 'A').texts, ['127.0.0.1'])
    assert.deepEqual(ask('_acme-challenge.b1-0-0.test', 'TXT').texts, ['digest'])
  })

  // RFC 2308 §2.2.
  test('says definitely that there is nothing else', () => {
    for (const type of ['AAAA', 'TXT', 'CAA'] as const) {
      const { rcode, answers, hasSoa, authoritative } = ask('b1-0-0.test', type)
      assert.deepEqual(
        { rcode, answers, hasSoa, authoritative },
        { rcode: 'NOERROR', answers: [], hasSoa: true, authoritative: true },
      )
    }
  })

  test('does not answer what is no question', () => {
    const response = dnsPacket.encode({ type: 'response', id: 1, questions: [{ type: 'A', name: 'a.test' }] })
    for (const bytes of [Buffer.alloc(0), Buffer.alloc(12), Buffer.alloc(40, 0xff), response])
      assert.equal(answerQuery(bytes, '127.0.0.1', proofs), undefined)
  })
})

// RFC 8737 §3.
test('the certificate for tls-alpn-01 is one that the validator takes', () => {
  const digest = createHash('sha256').update('token.thumbprint').digest()
  const name = 'b1-0-0.test'
  const der = pem(certificateMaker().certificateFor(name, digest.toString('base64url')))
  assert.equal(checkAcmeCertificate(der, { identifier: { type: 'dns', value: name }, digest }), undefined)
})

describe('proofs', () => {
  const account: Account = {
    index: 0,
    url: 'https://localhost:8443/acme/acct/1',
    key: newKey(),
    prefix: '',
    thumbprint: 'thumbprint',
    orderUrl: '',
    issued: undefined,
    renewals: 0,
    isTaken: false,
  }
  const challenge = (type: string, others: object = { token: 'token' }) => ({ type, url: 'https://x', ...others })
  const digest = createHash('sha256').update('token.thumbprint').digest('base64url')

  test('stand where each method looks', () => {
    const proof = (type: string, others?: object) => proofFor(challenge(type, others), account, 'a.test')
    assert.deepEqual(proof('dns-01'), { name: '_acme-challenge.a.test', text: digest })
    assert.deepEqual(proof('tls-alpn-01'), { name: 'a.test', text: digest })
    assert.deepEqual(proof('dns-account-01'), {
      name: `_${accountLabel(account.url)}._acme-challenge.a.test`,
      text: digest,
    })
    assert.deepEqual(proof('dns-persist-01', { 'issuer-domain-names': ['ca.test', 'other.test'] }), {
      name: '_validation-persist.a.test',
      text: `ca.test; accounturi=${account.url}`,
    })
    assert.equal(proof('http-01'), undefined)
    assert.equal(proof('accept-all-01'), undefined)
  })

  test('need what the challenge has to say', () => {
    assert.throws(() => proofFor(challenge('dns-01', {}), account, 'a.test'), /has no token/)
    assert.throws(() => proofFor(challenge('dns-persist-01', {}), account, 'a.test'), /names no issuer/)
  })
})

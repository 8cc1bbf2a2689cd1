/** IP identifiers end to end (RFC 8738). */

import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import {
  type AcmeClient,
  closeConnections,
  csrFor,
  type Responder,
  registeredClient,
  startResponder,
} from '../support/acme-client.ts'
import type { TestService } from '../support/service.ts'
import { sharedService } from '../support/shared-service.ts'
import { x509 } from '../unit/shared/pki/support.ts'

const PROBLEM = 'urn:ietf:params:acme:error:'

describe('IP identifiers', () => {
  let service: TestService
  let onIpv4: Responder
  let onIpv6: Responder
  let client: AcmeClient
  before(async () => {
    service = await sharedService('acme')
    onIpv4 = await startResponder(service.http01Port)
    onIpv6 = await startResponder(service.http01Port, '::1')
    client = await registeredClient(service.directoryUrl)
  })
  after(async () => {
    closeConnections()
    await onIpv4.close()
    await onIpv6.close()
  })

  const cases = [
    { address: '127.0.0.1', responder: () => onIpv4 },
    { address: '::1', responder: () => onIpv6 },
  ]
  for (const { address, responder } of cases) {
    test(`a certificate for ${address}: asked for, validated at that address, with an iPAddress alone (§3, §4)`, async () => {
      const order = await client.newOrder([address])
      assert.deepEqual(order.json.identifiers, [{ type: 'ip', value: address }])
      const authorization = await client.post(order.json.authorizations[0])
      assert.deepEqual(authorization.json.identifier, { type: 'ip', value: address })
      assert.deepEqual(
        authorization.json.challenges.map(({ type }: { type: string }) => type),
        ['http-01'],
        'the methods for DNS names are not offered (§7)',
      )

      const { der } = await client.obtain([address], responder())
      const san = new x509.X509Certificate(der).getExtension(x509.SubjectAlternativeNameExtension)
      assert.deepEqual(san?.names.toJSON(), [{ type: 'ip', value: address === '::1' ? '::1' : address }])
      assert.equal(san?.critical, true, 'the subject is empty')
      assert.ok(new X509Certificate(der).checkIP(address))
    })
  }

  test('one certificate holds addresses and names', async () => {
    const { der } = await client.obtain(['127.0.0.1', 'mixed.test'], onIpv4)
    const certificate = new X509Certificate(der)
    assert.ok(certificate.checkIP('127.0.0.1') && certificate.checkHost('mixed.test'))
  })

  test('a CSR that writes the address as a dNSName is badCSR (§3)', async () => {
    const order = await client.newOrder(['127.0.0.1', 'wrong-type.test'])
    await client.authorize(order, onIpv4)
    const answer = await client.post(order.json.finalize, { csr: await csrFor(['wrong-type.test']) })
    assert.equal(answer.json.type, `${PROBLEM}badCSR`)
  })

  const refused: Record<string, string> = {
    'an IPv4 address with a leading zero': '127.0.0.01',
    'an IPv4 address of three parts': '127.0.1',
    'an IPv4-mapped IPv6 address': '::ffff:127.0.0.1',
    'an IPv6 address with a zone': 'fe80::1%eth0',
    'a network': '127.0.0.0/8',
    'an address in brackets': '[::1]',
    'a name': 'localhost.test',
  }
  for (const [what, value] of Object.entries(refused)) {
    test(`${what} is malformed (§3)`, async () => {
      const answer = await client.post(client.directory['newOrder'] as string, { identifiers: [{ type: 'ip', value }] })
      assert.equal(answer.status, 400)
      assert.equal(answer.json.type, `${PROBLEM}malformed`)
    })
  }

  test('an address as an identifier of type dns is malformed (§3)', async () => {
    const identifiers = [{ type: 'dns', value: '127.0.0.1' }]
    const answer = await client.post(client.directory['newOrder'] as string, { identifiers })
    assert.equal(answer.json.type, `${PROBLEM}malformed`)
  })

  test('two spellings of one IPv6 address are one identifier, in the text of RFC 5952', async () => {
    const identifiers = [{ type: 'ip', value: '0:0:0:0:0:0:0:1' }]
    const newOrder = client.directory['newOrder'] as string
    const answer = await client.post(newOrder, { identifiers })
    assert.deepEqual(answer.json.identifiers, [{ type: 'ip', value: '::1' }])
    const twice = await client.post(newOrder, { identifiers: [...identifiers, { type: 'ip', value: '::1' }] })
    assert.deepEqual(twice.json.identifiers, [{ type: 'ip', value: '::1' }])
  })
})

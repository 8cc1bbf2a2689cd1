/** Records of former servers that are not as they should be: what is revoked stays revoked, and no account is lost for its date. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { readIndexLine } from '../../../src/import/certificate-files.ts'
import { readEjbcaRow } from '../../../src/import/ejbca.ts'
import { readAccount, readRevocation } from '../../../src/import/step-ca.ts'

const json = (value: object) => Buffer.from(JSON.stringify(value))

describe('a revocation whose time or reason cannot be read', () => {
  test('is one all the same at step-ca', () => {
    for (const value of [Buffer.from('{'), json({}), json({ RevokedAt: '0001-01-01T00:00:00Z', ReasonCode: 'x' })]) {
      const { revokedAt, revocationReason } = readRevocation(value)
      assert.equal(revocationReason, 0)
      assert.ok(revokedAt.getTime() > 0)
    }
  })

  test('is one all the same at EJBCA', () => {
    const row = { fingerprint: 'f', base64Cert: 'MAA=', status: '40', revocationDate: '-1', revocationReason: '1' }
    const read = readEjbcaRow(row)
    assert.ok('der' in read && read.revokedAt && read.revokedAt.getTime() > 0)
    assert.equal(read.revocationReason, 1)
  })

  test('is one all the same in an index of OpenSSL', () => {
    const entry = readIndexLine('R\t300101000000Z\t269999000000Z,someReason\t0ABC\tunknown\t/CN=a')
    assert.equal(entry?.revocation?.revocationReason, 0)
    assert.ok(Number(entry?.revocation?.revokedAt.getTime()) > 0)
  })
})

describe('a row of EJBCA', () => {
  const row = { fingerprint: 'f', base64Cert: 'MAA=', status: '60', revocationDate: '-1', revocationReason: '-1' }

  test('that was cut short is not read as one without a revocation, nor as one with another', () => {
    for (const cut of ['status', 'revocationDate', 'revocationReason']) {
      const read = readEjbcaRow({ ...row, status: '40', [cut]: '' })
      assert.ok('unreadable' in read && read.unreadable === `it has no ${cut}; was the file cut short here?`, cut)
    }
  })

  test('that is archived is revoked only where it has a reason', () => {
    for (const revocationReason of ['-1', 'NULL']) {
      const read = readEjbcaRow({ ...row, revocationReason, revocationDate: revocationReason })
      assert.ok('der' in read && read.revokedAt === undefined, revocationReason)
    }
    const read = readEjbcaRow({ ...row, revocationDate: '1790000000000', revocationReason: '0' })
    assert.ok('der' in read && read.revokedAt !== undefined)
  })
})

describe('an account of step-ca', () => {
  const record = { id: 'a1', key: { kty: 'EC' }, contact: null, status: 'valid', createdAt: '0001-01-01T00:00:00Z' }

  test('has the path of its prefix, of its provisioner, or of each that the operator names', () => {
    const paths = (place: object, ...named: string[]) => readAccount(json({ ...record, ...place }), named).urls
    const locationPrefix = 'https://ca.corp.example/acme/web%20team/account/'
    assert.deepEqual(paths({ locationPrefix, provisionerName: 'other' }), ['/acme/web%20team/account/a1'])
    assert.deepEqual(paths({ provisionerName: 'web team' }, 'unused'), ['/acme/web%20team/account/a1'])
    assert.deepEqual(paths({}, 'one', 'two (2)?'), ['/acme/one/account/a1', '/acme/two%20%282%29%3F/account/a1'])
    assert.throws(() => paths({}), /say --provisioner NAME/)
  })

  test('without a time counts as made now', () =>
    assert.ok(Date.now() - readAccount(json(record), ['acme']).createdAt.getTime() < 60_000))
})

/** Objects as clients see them (RFC 8555 §7.1): members that do not apply are absent. */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { renderAuthorization, renderChallenge } from '../../../src/acme/authorizations.ts'
import { renderOrder } from '../../../src/acme/orders.ts'
import type { Authorization, Order } from '../../../src/domain/records.ts'
import { Urls } from '../../../src/shared/protocol/urls.ts'
import { each } from '../../support/each.ts'

const urls = new Urls({
  externalUrl: 'https://ca.example',
  basePath: '',
  paths: {
    directory: '/d',
    newNonce: '/n',
    newAccount: '/a',
    newOrder: '/o',
    newAuthz: '/z',
    revokeCert: '/r',
    keyChange: '/k',
  },
})
const ID = '0190c4b2-0000-7000-8000-00000000abc0'
const EXPIRES = new Date('2026-01-01T00:00:00.999Z')

function anAuthorization(overrides: Partial<Authorization> = {}): Authorization {
  return {
    id: ID,
    accountId: ID,
    identifier: { type: 'dns', value: 'a.example' },
    wildcard: false,
    status: 'pending',
    expiresAt: EXPIRES,
    token: 'token',
    offered: ['http-01', 'dns-01', 'dns-persist-01'],
    attempts: {},
    ...overrides,
  }
}

interface Shown {
  wildcard?: boolean
  challenges: { type: string; status: string; token?: string; url: string }[]
}
const settings = { dnsPersist: { issuerDomainNames: ['ca.example', 'other.example'], draft: '01' } } as const
const shown = (overrides: Partial<Authorization>) =>
  JSON.parse(renderAuthorization(anAuthorization(overrides), urls, settings)) as Shown
const types = (overrides: Partial<Authorization>) => shown(overrides).challenges.map(({ type }) => type)

test('wildcard is true or absent, never false (§7.1.4)', () => {
  assert.equal(shown({ wildcard: true }).wildcard, true)
  assert.equal('wildcard' in shown({}), false)
})

test('a pending authorization shows all it offers, each with a URL of its own (§7.1.4)', () => {
  const { challenges } = shown({})
  assert.equal(new Set(challenges.map(({ url }) => url)).size, 3)
  assert.deepEqual(each(challenges, 'token'), ['token', 'token', undefined])
})

const failed = { status: 'invalid', tries: 3, error: { type: 'urn:x', detail: 'd', status: 400 } } as const
const met = { status: 'valid', tries: 0, validated: '2026-01-01T00:00:00Z' } as const

test('a final authorization shows what was attempted, a valid one what was met (§7.1.4)', () => {
  assert.deepEqual(
    types({ status: 'valid', attempts: { 'http-01': { status: 'processing', tries: 1 }, 'dns-01': met } }),
    ['dns-01'],
  )
  assert.deepEqual(types({ status: 'invalid', attempts: { 'http-01': failed } }), ['http-01'])
  assert.deepEqual(types({ status: 'expired', attempts: { 'dns-01': met } }), ['dns-01'])
  assert.deepEqual(types({ status: 'deactivated' }), ['http-01', 'dns-01', 'dns-persist-01'])
})

describe('a dns-persist-01 challenge', () => {
  const url = `https://ca.example/chall/${ID.slice(0, -1)}4`
  const common = { type: 'dns-persist-01', url, status: 'pending', accounturi: `https://ca.example/acct/${ID}` }
  const { issuerDomainNames } = settings.dnsPersist

  test('names the account and this service, and has no token (draft-ietf-acme-dns-persist-01 §3.1)', () =>
    assert.deepEqual(JSON.parse(renderChallenge(anAuthorization(), 'dns-persist-01', urls, settings)), {
      ...common,
      'issuer-domain-names': issuerDomainNames,
    }))

  test('says so in the words of draft 02 as well where that is switched on (§3.1)', () => {
    const draft02 = { dnsPersist: { issuerDomainNames, draft: '02' } } as const
    assert.deepEqual(JSON.parse(renderChallenge(anAuthorization(), 'dns-persist-01', urls, draft02)), {
      ...common,
      'issuer-domain-names': issuerDomainNames,
      issuerDomainNames,
    })
  })
})

test('nothing rendered is null or undefined, timestamps are whole seconds in UTC', () => {
  const order: Order = {
    id: ID,
    accountId: ID,
    status: 'pending',
    identifiers: [{ type: 'dns', value: 'a.example' }],
    authorizationIds: [ID],
    expiresAt: EXPIRES,
    profile: 'default',
  }
  assert.deepEqual(JSON.parse(renderOrder(order, urls, { directoryMeta: { externalAccountRequired: false } })), {
    status: 'pending',
    expires: '2026-01-01T00:00:00Z',
    identifiers: [{ type: 'dns', value: 'a.example' }],
    authorizations: [`https://ca.example/authz/${ID}`],
    finalize: `https://ca.example/order/${ID}/finalize`,
  })
  const full = { ...order, status: 'valid' as const, certificateId: ID, notBefore: EXPIRES, notAfter: EXPIRES }
  const rendered = JSON.parse(renderOrder(full, urls, { directoryMeta: { externalAccountRequired: false } })) as Record<
    string,
    unknown
  >
  assert.equal(rendered['certificate'], `https://ca.example/cert/${ID}`)
  assert.equal(rendered['notAfter'], '2026-01-01T00:00:00Z')
})

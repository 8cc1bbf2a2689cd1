/** Authorizations that are valid without a challenge: what the credential must say when the row is made, and races with its revocation. */

import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import fc from 'fast-check'
import type { CredentialRow } from '../../src/admin/eab/credential-store.ts'
import type { Approval } from '../../src/domain/allowlist.ts'
import { isAllowed, normalizeAllowedIdentifier } from '../../src/domain/allowlist.ts'
import type { Identifier } from '../../src/shared/protocol/identifier.ts'
import type { Requester } from '../../src/store/account-store.ts'
import { createEabStore, type EabStore } from '../../src/store/eab-store.ts'
import type { MadeOrder, NewOrder } from '../../src/store/order-store.ts'
import { each } from '../support/each.ts'
import { forAllAsync } from '../support/property-runs.ts'
import { type Grants, openGrants } from './grants.ts'
import { aCandidate, aName, aNewAccount, aNewOrder, anAccount, preAuthorizing, useStores } from './support.ts'

const RECORD = { type: 'pre-approval', at: '2026-01-02T03:04:05Z', result: 'valid', requestId: 'request' } as const
const from = (address: string): Approval => ({ address, record: RECORD })
const AUTO: Approval = { record: { ...RECORD, type: 'auto_accept' } }

describe('approval', () => {
  const store = useStores(() => grants.end())
  let eab: EabStore
  let grants: Grants
  before(async () => {
    eab = createEabStore(store.db)
    grants = await openGrants(store.settings)
  })

  interface Holder {
    credential: CredentialRow
    requester: Requester
  }

  /** An account with a credential that approves `patterns` from `networks`. */
  async function aHolder(
    patterns: string[],
    networks: string[] | null = ['10.0.0.0/8', '2001:db8::/32'],
  ): Promise<Holder> {
    const credential = await grants.credential({ preapprovedNetworks: networks ?? undefined })
    await grants.grant(
      credential.id,
      patterns.map((value) => ({ type: /^[\d.:]/.test(value) ? 'ip' : 'dns', value })),
    )
    const account = aNewAccount()
    const binding = { protected: 'aa', payload: 'bb', signature: 'cc' }
    assert.ok(await eab.register({ account, credentialId: credential.id, binding, reusable: true }))
    return { credential, requester: { accountId: account.id, keyVersion: 1 } }
  }

  async function order(requester: Requester, names: string[], over: Partial<NewOrder> = {}): Promise<MadeOrder> {
    const made = await store.orders.create(aNewOrder(requester, over, names))
    assert.ok(typeof made !== 'symbol')
    return made
  }

  const rowsOf = ({ authorizationIds }: MadeOrder) =>
    store.sql<{ status: string; approved: boolean; evidence: unknown }>(
      'SELECT status, approved, evidence FROM authorizations WHERE id = ANY ($1) ORDER BY array_position($1, id)',
      [authorizationIds],
    )

  test('an allowed name from a network of the credential is valid at once, and its row says why', async () => {
    const name = aName()
    const { requester, credential } = await aHolder([name])
    const made = await order(requester, [name], { approval: from('10.1.2.3') })
    assert.equal(made.status, 'ready')
    const { kid } = credential
    assert.deepEqual(made.approved, { by: 'pre-approval', identifiers: [name], kid, network: '10.0.0.0/8' })
    const step = { step: 'credential', kid, network: '10.0.0.0/8', address: '10.1.2.3' }
    assert.deepEqual(await rowsOf(made), [{ status: 'valid', approved: true, evidence: { ...RECORD, steps: [step] } }])
    const found = await store.orders.find({ requester, orderId: made.id })
    assert.ok(typeof found === 'object' && found.status === 'ready')
  })

  const outside: [what: string, patterns: string[], networks: string[] | null, address: string][] = [
    ['an address outside the networks', ['one.example'], ['10.0.0.0/8'], '11.0.0.1'],
    ['an address of another family', ['one.example'], ['0.0.0.0/0'], '2001:db8::1'],
    ['a name outside the allowlist', ['two.example'], ['10.0.0.0/8'], '10.0.0.1'],
    ['an empty allowlist', [], ['10.0.0.0/8'], '10.0.0.1'],
    ['a credential without networks', ['one.example'], null, '10.0.0.1'],
  ]
  for (const [what, patterns, networks, address] of outside)
    test(`${what} needs a challenge`, async () => {
      const { requester } = await aHolder(patterns, networks)
      const made = await order(requester, ['one.example'], { approval: from(address) })
      assert.deepEqual([made.status, made.approved], ['pending', undefined])
      assert.deepEqual(await rowsOf(made), [{ status: 'pending', approved: false, evidence: null }])
    })

  test('an account without a credential needs a challenge, wherever it asks from', async () => {
    const { requester } = await anAccount(store)
    assert.equal((await order(requester, [aName()], { approval: from('10.0.0.1') })).status, 'pending')
  })

  test('of several names only those that are allowed are valid, and the order is pending', async () => {
    const { requester } = await aHolder(['*.mixed.example'])
    const names = ['a.mixed.example', 'other.example', '*.mixed.example']
    const made = await order(requester, names, { approval: from('2001:db8::7') })
    assert.equal(made.status, 'pending')
    assert.deepEqual(made.approved?.identifiers, ['a.mixed.example', '*.mixed.example'])
    assert.deepEqual(each(await rowsOf(made), 'status'), ['valid', 'pending', 'valid'])
  })

  test('it serves no later order that is not approved itself', async () => {
    const name = aName()
    const { requester } = await aHolder([name])
    const approved = await order(requester, [name], { approval: from('10.0.0.1') })
    const elsewhere = await order(requester, [name])
    assert.equal(elsewhere.status, 'pending')
    assert.notDeepEqual(elsewhere.authorizationIds, approved.authorizationIds)
    const away = await order(requester, [name], { approval: from('192.0.2.1'), notAfter: new Date(Date.now() + 1e6) })
    assert.equal(away.status, 'pending')
    const again = await order(requester, [name], { approval: from('10.0.0.1'), notAfter: new Date(Date.now() + 2e6) })
    assert.deepEqual([again.status, again.authorizationIds], ['ready', approved.authorizationIds])
  })

  test('orders that are approved and orders that are not go well in one batch', async () => {
    const name = aName()
    const [one, two] = [await aHolder([name]), await aHolder([name])]
    const { requester: three } = await anAccount(store)
    const made = await Promise.all([
      order(one.requester, [name], { approval: from('10.0.0.1') }),
      order(two.requester, [name], { approval: from('11.0.0.1') }),
      order(three, [name]),
      order(three, [aName()], { approval: AUTO }),
    ])
    assert.deepEqual(
      made.map(({ status, approved }) => [status, approved?.kid]),
      [
        ['ready', one.credential.kid],
        ['pending', undefined],
        ['pending', undefined],
        ['ready', undefined],
      ],
    )
  })

  test('where everything is accepted, every name is valid, and no later order gets it otherwise', async () => {
    const { requester } = await anAccount(store)
    const name = aName()
    const made = await order(requester, [name, `*.${name}`], { approval: AUTO })
    assert.deepEqual([made.status, made.approved?.by], ['ready', 'auto_accept'])
    const evidence = { ...AUTO.record, steps: [{ step: 'auto_accept' }] }
    const valid = { status: 'valid', approved: true, evidence }
    assert.deepEqual(await rowsOf(made), [valid, valid])
    assert.equal((await order(requester, [name])).status, 'pending')
  })

  test('pre-authorizations are approved in the same way (RFC 8555 §7.4.1)', async () => {
    const value = aName()
    const { requester, credential } = await aHolder([value])
    const create = (approval?: Approval, wildcard = false) =>
      store.authorizations.create(
        preAuthorizing(requester, aCandidate({ identifier: { type: 'dns', value }, wildcard }), approval),
      )
    const made = await create(from('10.0.0.1'))
    assert.ok(typeof made !== 'symbol')
    assert.equal(made.authorization.status, 'valid')
    assert.deepEqual(made.approved, {
      by: 'pre-approval',
      identifiers: [value],
      kid: credential.kid,
      network: '10.0.0.0/8',
    })
    const again = await create(from('10.0.0.1'))
    assert.deepEqual(again, { authorization: made.authorization }, 'the valid one, which was approved before')
    for (const other of [await create(), await create(from('11.0.0.1')), await create(from('10.0.0.1'), true)])
      assert.ok(typeof other !== 'symbol' && other.authorization.status === 'pending' && !other.approved)
    const accepted = await create(AUTO)
    assert.ok(typeof accepted !== 'symbol' && accepted.authorization.status === 'valid')
    await grants.revoke(credential.id)
    assert.equal(typeof (await create(from('10.0.0.1'))), 'symbol', 'the account is revoked')
  })

  for (const what of ['an order', 'a pre-authorization'])
    test(`${what} that meets the revocation of the credential leaves nothing valid`, async () => {
      const name = aName()
      const holder = await aHolder([name])
      const lock = { text: 'SELECT 1 FROM eab_credentials WHERE id = $1 FOR UPDATE', values: [holder.credential.id] }
      const create = () =>
        what === 'an order'
          ? store.orders.create(aNewOrder(holder.requester, { approval: from('10.0.0.1') }, [name]))
          : store.authorizations.create(
              preAuthorizing(
                holder.requester,
                aCandidate({ identifier: { type: 'dns', value: name } }),
                from('10.0.0.1'),
              ),
            )
      await store.meetAt(lock, 2, () => Promise.all([grants.revoke(holder.credential.id), create()]))
      const valid = await store.sql("SELECT id FROM authorizations WHERE account_id = $1 AND status = 'valid'", [
        holder.requester.accountId,
      ])
      assert.deepEqual(valid, [])
    })

  test('the database allows what the domain allows', async () => {
    const label = fc.constantFrom('a', 'b', 'ab', 'example')
    const name = fc.array(label, { minLength: 1, maxLength: 4 }).map((labels) => labels.join('.'))
    const starred = fc.tuple(fc.boolean(), name).map(([star, text]) => (star ? `*.${text}` : text))
    const octet = fc.constantFrom(0, 1, 10, 127, 128, 192, 255)
    const address = fc.oneof(
      fc.tuple(octet, octet, octet, octet).map((octets) => octets.join('.')),
      fc.constantFrom('2001:db8::1', '2001:db8:8000::', '::1', 'fe80::1'),
    )
    const network = fc
      .tuple(address, fc.constantFrom('', '/0', '/1', '/8', '/25', '/32', '/33', '/128'))
      .map(([text, prefix]) => normalizeAllowedIdentifier('ip', text + prefix))
      .filter((normal) => normal.ok)
      .map((normal) => (normal.ok ? normal.value : ''))
    const identifier = fc.oneof(
      starred.map((value): Identifier => ({ type: 'dns', value })),
      address.map((value): Identifier => ({ type: 'ip', value })),
    )
    const pattern = fc.oneof(
      starred.map((value): Identifier => ({ type: 'dns', value })),
      network.map((value): Identifier => ({ type: 'ip', value })),
    )
    const { credential } = await aHolder([])
    await forAllAsync(
      200,
      fc.uniqueArray(pattern, { maxLength: 3 }),
      fc.array(identifier, { minLength: 5, maxLength: 20 }),
      async (patterns, asked) => {
        await store.sql('DELETE FROM eab_allowed_identifiers WHERE eab_credential_id = $1', [credential.id])
        const distinct = [...new Map(patterns.map((one) => [one.value, one])).values()]
        await grants.grant(credential.id, distinct)
        const rows = await store.sql<{ allowed: boolean }>(
          `SELECT credential_allows($1, type, value, wildcard) AS allowed
             FROM unnest($2::text[], $3::text[], $4::boolean[]) WITH ORDINALITY AS n (type, value, wildcard, ord) ORDER BY ord`,
          [
            credential.id,
            asked.map(({ type }) => type),
            asked.map(({ value }) => value.replace(/^\*\./, '')),
            asked.map(({ value }) => value.startsWith('*.')),
          ],
        )
        assert.deepEqual(
          rows.map(({ allowed }) => allowed),
          asked.map((one) => isAllowed(one, distinct)),
          JSON.stringify({ distinct, asked }),
        )
      },
    )
  })
})

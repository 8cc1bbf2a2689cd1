/** Failures of all accounts: one by one with filters, by cause, and as many as the overview counts. */

import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import { csrFor } from '../support/acme-client.ts'
import { issuingOn } from '../support/administered.ts'
import { accountIdOf } from '../support/bound.ts'
import { failHttp01 } from '../support/clients/failing.ts'
import { P256_KEY } from '../support/keys.ts'
import { sharedService } from '../support/shared-service.ts'
import { until } from '../support/until.ts'

interface Failure {
  kind: string
  account_id: string
  data: { identifiers?: { value: string }[] }
}

describe('failures of all accounts', () => {
  const at = issuingOn(() => sharedService('admin'))
  before(async () => {
    await at.client.obtain(['www.test'], at.responder)
    await refusedCsr()
    await refusedCsr()
    await at.client.newOrder(['forbidden.test'])
    await failHttp01(at.client, at.responder, 'fails.test')
    await until('all are kept', async () => (await listed()).length === 4)
  })

  async function refusedCsr(): Promise<void> {
    const order = await at.client.newOrder(['www.test'])
    await at.client.post(order.json.finalize, { csr: await csrFor(['other.test'], P256_KEY) })
  }
  const listed = async (query = ''): Promise<Failure[]> => (await at.auditor.get(`/failures${query}`)).json
  const since = () => encodeURIComponent(new Date(Date.now() - 86_400_000).toISOString())

  test('are as many as the overview counts', async () => {
    const counted = await until('they are counted', async () => {
      const { failures } = (await at.auditor.get('/overview')).json
      const sum = failures.reduce((all: number, { events }: { events: number }) => all + events, 0)
      return sum === 4 && failures
    })
    for (const { kind, events } of counted)
      assert.equal((await listed(`?since=${since()}&kind=${kind}`)).length, events, kind)
  })

  test('are found by kind, problem, account and name', async () => {
    const account = accountIdOf(at.client)
    for (const [query, count] of [
      ['kind=order.csr_refused', 2],
      ['kind=order.csr_refused&problem=badCSR', 2],
      ['problem=rejectedIdentifier', 1],
      [`account_id=${account}`, 4],
      ['account_id=00000000-0000-4000-8000-000000000000', 0],
      ['name=fails.test', 1],
      ['name=WWW.test', 2],
      ['name=forbidden.test', 1],
      ['name=s.test', 0],
    ] as const)
      assert.equal((await listed(`?${query}`)).length, count, query)
    assert.equal((await at.auditor.get('/failures?kind=certificate.issuance')).status, 400)
  })

  test('are grouped by cause, the commonest first, and a group opens its rows', async () => {
    const causes = (await at.auditor.get('/failures/causes')).json
    assert.deepEqual(
      [causes[0].kind, causes[0].problem, causes[0].failures, causes[0].accounts],
      ['order.csr_refused', 'badCSR', 2, 1],
    )
    assert.equal(causes.length, 3)
    for (const { kind, problem, failures } of causes)
      assert.equal((await listed(`?kind=${kind}&problem=${problem}`)).length, failures, kind)
    for (const { data } of causes) assert.equal(data.token, undefined)
    assert.equal((await at.auditor.get('/failures/causes?limit=1')).json.length, 1)
    assert.deepEqual((await at.auditor.get('/failures/causes?name=nothing.test')).json, [])
  })
})

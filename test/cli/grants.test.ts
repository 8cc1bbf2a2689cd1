/** `chancery eab`, `identifiers` and `profiles` on a database without a service, and the entries that they leave. */

import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { before, describe, test } from 'node:test'
import { registeredClient } from '../support/acme-client.ts'
import { administered } from '../support/administered.ts'
import { accountIdOf, newestEntries } from '../support/bound.ts'
import { plainCsr } from '../support/csr.ts'
import { P256_KEY } from '../support/keys.ts'
import { chancery, operate } from '../support/operator.ts'
import { sharedService } from '../support/shared-service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

describe('commands about grants', () => {
  const folder = temporaryFolder()
  const { service, as } = administered(() => sharedService('admin'))
  const admin = as('alice')
  let account: string
  before(async () => {
    account = accountIdOf(await registeredClient(service.directoryUrl))
  })

  const run = (...words: string[]) => operate(service, ...words)

  test('eab create takes limits, prints JSON on request, and eab list shows them', async () => {
    const limits = ['--expires', '2999-01-01', '--max-uses', '20', '--from', '10.0.0.0/8', '--from', '192.0.2.1']
    const made = JSON.parse(await run('eab', 'create', '--kid', 'limited', ...limits, '--json'))
    assert.match(made.hmac_key, /^[A-Za-z0-9_-]{43}$/)
    const shown = (await admin.get(`/eab/${made.id}`)).json
    assert.deepEqual([shown.expires_at, shown.max_uses, shown.uses], ['2999-01-01T00:00:00.000Z', 20, 0])
    assert.deepEqual([shown.allowed_networks, shown.created_by], [['10.0.0.0/8', '192.0.2.1/32'], null])
    assert.deepEqual(JSON.parse(await run('eab', 'list', '--json')), [shown])
    assert.match(await run('eab', 'list'), /^\S+ +limited +- +false +false/m)
    const [entry] = await newestEntries(admin, 1)
    assert.equal(entry?.action, 'eab.create')
    assert.equal(typeof entry?.details['operator'], 'string')
  })

  test('identifiers: for an account and for a credential, each way taken back by itself', async () => {
    await run('eab', 'create', '--kid', 'granting')
    await run('identifiers', 'allow', 'a.test', '*.b.test', '--account', account)
    await run('identifiers', 'allow', 'a.test', '--eab', 'granting')
    const list = async (...words: string[]) => JSON.parse(await run('identifiers', 'list', ...words, '--json'))
    const valuesOf = (rows: { identifier_value: string }[]) => rows.map((row) => row.identifier_value).sort()
    assert.deepEqual(valuesOf(await list('--account', account)), ['*.b.test', 'a.test'])
    assert.match(await run('identifiers', 'list', '--eab', 'granting'), /^dns +a\.test /m)
    assert.deepEqual(
      (await list()).map((row: { account_ids: string[] }) => row.account_ids),
      [[account], [account]],
    )
    assert.equal(await run('identifiers', 'disallow', 'a.test', '--eab', 'granting'), 'removed  a.test\n')
    assert.equal((await list('--account', account)).length, 2)
    assert.equal((await chancery(service, 'identifiers', 'disallow', 'a.test', '--eab', 'granting')).code, 1)
    assert.equal(await run('identifiers', 'delete', 'a.test', '*.b.test'), 'deleted  a.test\ndeleted  *.b.test\n')
    assert.deepEqual(JSON.parse(await run('accounts', 'allowed', account, '--json')), [])
    assert.equal(await run('identifiers', 'create', '10.0.0.0/8'), 'created  10.0.0.0/8\n')
    const again = await chancery(service, 'identifiers', 'create', '10.0.0.0/8')
    assert.equal(again.code, 1)
    assert.match(again.stderr, /is there already/)
  })

  test('accounts: a name and tags are given, and taken away by empty values', async () => {
    const shown = async (...words: string[]) => {
      const { name, label, tags } = JSON.parse(await run('accounts', ...words, '--json'))
      return { name, label, tags }
    }
    const named = { name: 'Team A', label: 'Team A', tags: ['emea', 'team-a'] }
    assert.deepEqual(await shown('update', account, '--label', 'Team A', '--tags', 'team-a, emea'), named)
    assert.deepEqual(await shown('show', account), named)
    assert.match(await run('accounts', 'list', '--tag', 'emea'), new RegExp(`^${account} +Team A +valid `, 'm'))
    const none = await shown('update', account, '--label', '', '--tags', '')
    assert.deepEqual([none.label, none.tags], [null, []])
    const refused = await chancery(service, 'accounts', 'update', account, '--tags', 'Not a tag')
    assert.equal(refused.code, 2)
    await run('eab', 'create', '--kid', 'tagged', '--tag', 'emea')
    assert.match(await run('eab', 'list', '--tag', 'emea'), /tagged/)
  })

  test('profiles: create, replace, assign, validate, unassign, delete', async () => {
    const file = path.join(folder, 'servers.json')
    const write = (profile_data: object) => writeFileSync(file, JSON.stringify({ name: 'servers', profile_data }))
    write({ san_maximum: 3 })
    await run('profiles', 'create', file)
    await run('profiles', 'assign', 'servers', '--account', account)
    const effective = async () => (await admin.get(`/accounts/${account}/csr-profile`)).json?.profile_data
    assert.deepEqual(await effective(), { san_maximum: 3 })
    write({ san_maximum: 0 })
    await run('profiles', 'replace', file)
    assert.deepEqual(await effective(), { san_maximum: 0 })
    const csr = path.join(folder, 'www.csr')
    writeFileSync(csr, plainCsr(P256_KEY, ['www.test']))
    const wrong = await chancery(service, 'profiles', 'validate', 'servers', csr)
    assert.deepEqual([wrong.code, wrong.stdout], [1, '1 subject alternative names; the maximum is 0\n'])
    await run('profiles', 'unassign', 'servers', '--account', account)
    assert.equal(await effective(), undefined)
    assert.equal(JSON.parse(await run('profiles', 'list', '--json')).length, 1)
    await run('profiles', 'delete', 'servers')
    assert.equal((await chancery(service, 'profiles', 'list')).stderr, 'none\n')
  })
})

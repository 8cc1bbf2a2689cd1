/** Records that a former server took and PostgreSQL or an RFC does not: named, and the run goes on. */

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import type { ImportedCredential, ImportSource, Kind } from '../../src/import/model.ts'
import { writeImport } from '../../src/import/write.ts'
import { createSecretBox } from '../../src/shared/lib/secret-box.ts'
import { openGrants } from '../store/grants.ts'
import { settingsFor } from '../store/support.ts'
import { newAccountKey } from '../support/acme-client.ts'
import { testDatabase } from '../support/database.ts'

describe('an import', () => {
  let database: Awaited<ReturnType<typeof testDatabase>>
  let grants: Awaited<ReturnType<typeof openGrants>>
  before(async () => {
    database = await testDatabase()
    grants = await openGrants(settingsFor(database.connection, 2))
  })
  after(async () => {
    await grants?.db.end()
    await database?.drop()
  })

  const pages = <T>(...things: T[]) =>
    async function* () {
      yield things
    }
  const createdAt = new Date('2025-01-01T00:00:00Z')
  const credential = (kid: string, octets = 32): ImportedCredential => ({
    kid,
    hmacKey: randomBytes(octets),
    createdAt,
  })
  const account = (...contacts: string[]) => ({
    jwk: newAccountKey().jwk,
    contacts,
    status: 'valid' as const,
    createdAt,
    urls: [`/acct/${randomBytes(4).toString('hex')}`],
  })
  const profile = (name: string, description?: string) => ({
    name,
    description,
    data: {},
    accounts: [],
    credentials: [],
  })

  const source: ImportSource = {
    name: 'test',
    credentials: pages(
      credential('good'),
      credential('nul\0kid'),
      { ...credential('label'), label: 'a\0b' },
      credential('short', 31),
      credential('one', 1),
    ),
    accounts: pages(account('mailto:a@example.com'), account('mailto:a\0@example.com'), {
      ...account(),
      urls: ['/a\0'],
    }),
    profiles: pages(profile('good'), profile('a\0b'), profile('described', 'a\0b')),
  }
  const run = (isDryRun: boolean, from = source) =>
    writeImport(from, {
      audit: grants.audit,
      actor: grants.actor,
      box: createSecretBox(Buffer.alloc(32, 1), 'test'),
      isDryRun,
    })

  test('names a record with U+0000 or a key shorter than its hash (RFC 7518 §3.2), and takes the others', async () => {
    for (const isDryRun of [true, false]) {
      const report = await run(isDryRun)
      const of = (kind: Kind) => [report[kind]?.new, report[kind]?.first_skipped]
      const cannot = 'it has the character U+0000, which cannot be stored'
      const short = (octets: string) => `its key has ${octets}; an HMAC key has 32 at least (RFC 7518 §3.2)`
      assert.deepEqual(of('credentials'), [
        1,
        [
          { name: 'short', reason: short('31 octets') },
          { name: 'one', reason: short('1 octet') },
          { name: 'nul\ufffdkid', reason: cannot },
          { name: 'label', reason: cannot },
        ],
      ])
      assert.deepEqual([report.accounts?.new, report.accounts?.skipped], [1, 2])
      assert.deepEqual(of('profiles'), [
        1,
        [
          { name: 'a\ufffdb', reason: cannot },
          { name: 'described', reason: cannot },
        ],
      ])
    }
  })

  test('takes a record whose date no id can have, and names a key that is null', async () => {
    const old = [new Date('1901-01-01T00:00:00Z'), new Date(8.64e15)].map((createdAt) => ({ ...account(), createdAt }))
    const odd: ImportSource = {
      name: 'test',
      credentials: pages({ ...credential('old'), createdAt: new Date('-000001-01-01T00:00:00Z') }),
      accounts: pages(...old, { ...account(), urls: ['/acct/null'], jwk: JSON.parse('null') }),
    }
    for (const isDryRun of [true, false]) {
      const { accounts, credentials } = await run(isDryRun, odd)
      assert.deepEqual([accounts?.new, credentials?.new], [2, 1])
      assert.deepEqual(accounts?.first_skipped, [{ name: '/acct/null', reason: 'its key is no JWK' }])
    }
  })
})

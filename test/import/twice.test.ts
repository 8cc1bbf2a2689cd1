/**
 * What a former server has twice, on one page and across two of them: a dry run, a run and a run that was killed have the same
 * books.
 */

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { before, describe, test } from 'node:test'
import type {
  ImportedAccount,
  ImportedCertificate,
  ImportedCredential,
  ImportReport,
  ImportSource,
} from '../../src/import/model.ts'
import { KINDS } from '../../src/import/model.ts'
import { writeImport } from '../../src/import/write.ts'
import { createSecretBox } from '../../src/shared/lib/secret-box.ts'
import { fingerprintSha256 } from '../../src/shared/pki/certificate.ts'
import { decodePem } from '../../src/shared/pki/pem.ts'
import { openGrants } from '../store/grants.ts'
import { settingsFor } from '../store/support.ts'
import { newAccountKey } from '../support/acme-client.ts'
import { testCa } from '../support/ca.ts'
import { issueFormerly } from '../support/cas/former-ca.ts'
import { rowsIn, testDatabase } from '../support/database.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

describe('what comes twice', () => {
  const folder = temporaryFolder()
  const createdAt = new Date('2025-01-01T00:00:00Z')
  const revoked = { revokedAt: new Date('2026-01-02T03:04:05Z'), revocationReason: 4 }
  const credentials: ImportedCredential[] = []
  const accounts: ImportedAccount[] = []
  const certificates: ImportedCertificate[] = []
  let issuer: Buffer

  before(async () => {
    const ca = await testCa(folder)
    issuer = decodePem(readFileSync(ca.intermediate, 'latin1'))[0]?.der as Buffer
    const [one, two] = ['41'.repeat(8), '42'.repeat(8)]
    const der = async (name: string, serial?: string) => (await issueFormerly(ca, [name], serial)).der
    const first = await der('one.test', one)
    const second = await der('two.test', two)
    certificates.push(
      { der: first },
      { der: second, ...revoked },
      { der: first },
      { der: await der('other.test', one), ...revoked },
      { der: second, ...revoked },
      { der: first, ...revoked },
      { der: first, ...revoked },
      { der: await der('three.test') },
    )
    const [key, newer, third] = [newAccountKey().jwk, newAccountKey().jwk, newAccountKey().jwk]
    const account = (more: Partial<ImportedAccount>): ImportedAccount => ({
      jwk: key,
      contacts: ['mailto:a@example.com'],
      status: 'valid',
      createdAt,
      urls: ['/acct/1'],
      ...more,
    })
    accounts.push(
      account({}),
      account({}),
      account({ urls: ['/acct/1', '/other/1'] }),
      account({ contacts: ['mailto:b@example.com'] }),
      account({ jwk: newer, contacts: ['mailto:b@example.com'] }),
      account({ jwk: third, urls: ['/acct/3'] }),
      account({ jwk: third, urls: ['/acct/1'] }),
      account({ jwk: newer, urls: ['/acct/1'], contacts: ['mailto:b@example.com'], status: 'deactivated' }),
      account({ jwk: key, urls: ['/acct/9'] }),
    )
    const hmacKey = randomBytes(32)
    credentials.push(
      { kid: 'a', hmacKey, createdAt },
      { kid: 'a', hmacKey, createdAt },
      { kid: 'a', hmacKey: randomBytes(32), createdAt },
      { kid: 'a', hmacKey, createdAt, revokedAt: createdAt },
      { kid: 'a', hmacKey, createdAt, revokedAt: createdAt },
      { kid: 'b', hmacKey, createdAt },
    )
  })

  const holders = { accounts: [], credentials: [] }
  const hash = `scrypt:32768:8:1$${'a'.repeat(16)}$${'0'.repeat(128)}`
  const user = (username: string) => ({
    username,
    email: 'u@example.com',
    role: 'admin',
    enabled: true,
    passwordHash: hash,
  })
  const identifiers = ['a.test', 'A.test', 'b.test', 'a.test'].map((value) => ({
    type: 'dns' as const,
    value,
    ...holders,
  }))
  const profiles = [
    { name: 'p', data: {}, ...holders },
    { name: 'p', data: {}, ...holders },
    { name: 'p', data: { allow_wildcards: false }, ...holders },
    { name: 'q', data: {}, ...holders },
  ]

  const sourceOf = (size: number): ImportSource => {
    const paged = <T>(all: readonly T[]) =>
      async function* () {
        for (let from = 0; from < all.length; from += size) yield all.slice(from, from + size)
      }
    return {
      name: 'test',
      credentials: paged(credentials),
      accounts: paged(accounts),
      identifiers: paged(identifiers),
      profiles: paged(profiles),
      certificates: paged(certificates),
      administrators: paged([user('ann'), user('Ann'), user('bob')]),
    }
  }

  /** In a database of its own. @param stopAfter so many pages, the run ends as if it had been killed */
  async function run(size: number, ...runs: { isDryRun?: boolean; stopAfter?: number }[]) {
    const database = await testDatabase()
    const grants = await openGrants(settingsFor(database.connection, 2))
    try {
      const fingerprint = Buffer.from(fingerprintSha256(issuer), 'hex')
      await rowsIn(database, 'INSERT INTO issuers (fingerprint, certificate, chain) VALUES ($1, $2, $3)', [
        fingerprint,
        issuer,
        [issuer],
      ])
      const reports: ImportReport[] = []
      for (const { isDryRun = false, stopAfter = Number.POSITIVE_INFINITY } of runs) {
        let pages = 0
        const options = {
          audit: grants.audit,
          actor: grants.actor,
          box: createSecretBox(Buffer.alloc(32, 1), 'test'),
          isDryRun,
          onProgress: () => {
            if (++pages >= stopAfter) throw new Error('killed')
          },
        }
        await writeImport(sourceOf(size), options).then(
          (report) => reports.push(report),
          (error) => assert.equal(error.message, 'killed'),
        )
      }
      const count = async (text: string) => (await rowsIn(database, text)).map((row) => Object.values(row).join(' '))
      const books = {
        accounts: await count(
          `SELECT a.status, a.contacts, ARRAY(SELECT path FROM account_paths p WHERE p.account_id = a.id ORDER BY path) AS paths
             FROM accounts a ORDER BY 3`,
        ),
        certificates: await count(
          `SELECT encode(serial_number, 'hex') = '4141414141414141' AS one, names, revocation_reason FROM certificates ORDER BY names`,
        ),
        others: await count(
          `SELECT kid, revoked FROM eab_credentials UNION ALL SELECT identifier_value, NULL FROM allowed_identifiers
           UNION ALL SELECT name, NULL FROM csr_profiles UNION ALL SELECT username, NULL FROM admin_users ORDER BY 1`,
        ),
      }
      return { reports, books }
    } finally {
      await grants.db.end()
      await database.drop()
    }
  }
  const countsOf = (report: ImportReport | undefined) => ({
    revocations: report?.revocations,
    ...Object.fromEntries(
      KINDS.flatMap((kind) => {
        const { read, new: fresh, changed, known, skipped } = report?.[kind] ?? {}
        return [[kind, { read, fresh, changed, known, skipped }]]
      }),
    ),
  })

  const EXPECTED = {
    revocations: 2,
    credentials: { read: 6, fresh: 2, changed: 1, known: 2, skipped: 1 },
    accounts: { read: 9, fresh: 3, changed: 4, known: 1, skipped: 1 },
    identifiers: { read: 4, fresh: 2, changed: 0, known: 2, skipped: 0 },
    profiles: { read: 4, fresh: 2, changed: 0, known: 1, skipped: 1 },
    certificates: { read: 8, fresh: 3, changed: 0, known: 4, skipped: 1 },
    administrators: { read: 3, fresh: 2, changed: 0, known: 1, skipped: 0 },
    audit_entries: { read: undefined, fresh: undefined, changed: undefined, known: undefined, skipped: undefined },
  }
  for (const size of [1, 2, 3, 500])
    test(`has the same books in a dry run and in a run, in pages of ${size}`, async () => {
      const { reports, books } = await run(size, { isDryRun: true }, {}, {})
      assert.deepEqual(countsOf(reports[0]), EXPECTED, 'dry run')
      assert.deepEqual(countsOf(reports[1]), EXPECTED, 'run')
      assert.equal(reports[2]?.revocations, 0, 'a repeat brings nothing')
      assert.deepEqual(books.certificates, [`true one.test 4`, `false three.test `, `false two.test 4`])
      assert.deepEqual(books.others, ['a true', 'a.test ', 'ann ', 'b false', 'b.test ', 'bob ', 'p ', 'q '])
    })

  test('is whole after a run that was killed between any two pages and was run again', async () => {
    const { books: whole } = await run(2, {})
    for (let stopAfter = 1; stopAfter < 18; stopAfter += 2) {
      const { books } = await run(2, { stopAfter }, {})
      assert.deepEqual(books, whole, `after ${stopAfter} pages`)
    }
  })
})

/** `chancery certificates list`, `orders list`, `accounts list` and `eab list`: filters, pages, and messages about nothing and too much. */

import assert from 'node:assert/strict'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import type { Requester } from '../../src/store/account-store.ts'
import { openGrants } from '../store/grants.ts'
import {
  aName,
  anAccount,
  anIntent,
  anIssued,
  anOrder,
  aReadyOrder,
  newId,
  openStores,
  type StoreFixture,
} from '../store/support.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { words } from '../support/words.ts'
import { configFor, runWith } from './support.ts'

const DAY_MS = 86_400_000
const FINGERPRINTS = [Buffer.alloc(32, 1), Buffer.alloc(32, 2)] as const

describe('lists', () => {
  let store: StoreFixture
  const folder = temporaryFolder()
  let configFile: string
  let requester: Requester
  let other: Requester
  /** Ids of certificates, oldest first: expired, active, active until later, revoked, another account's. */
  const ids: string[] = []
  const names = Array.from({ length: 5 }, () => aName('listed'))

  before(async () => {
    store = await openStores()
    configFile = configFor(store.settings, path.join(folder, 'config.yaml'))
    requester = (await anAccount(store, { contacts: ['mailto:ops@lists.example'] })).requester
    other = (await anAccount(store)).requester
    for (const fingerprint of FINGERPRINTS) {
      await store.certificates.saveIssuer(fingerprint, Buffer.from('certificate'), [Buffer.from('certificate')])
    }
    const inDays = [-1, 10, 60, 20, 30]
    for (const [i, days] of inDays.entries()) {
      const account = i === 4 ? other : requester
      const order = await aReadyOrder(store, account, {}, [names[i] as string])
      const intent = {
        ...anIntent({ id: order.id, requester: account }),
        issuerFingerprint: FINGERPRINTS[i === 0 ? 0 : 1],
      }
      await store.issuance.begin(intent)
      const notAfter = new Date(Date.now() + days * DAY_MS)
      await store.issuance.complete({ ...anIssued(intent), names: [names[i] as string], notAfter })
      ids.push(intent.certificateId)
    }
    await store.certificates.revoke({ certificateId: ids[3] as string, reason: 4, blockedKey: undefined, requester })
  })
  after(async () => {
    await store.close()
  })

  const chancery = (...words: string[]) => runWith(configFile, ...words)

  async function list(
    what: 'certificates' | 'orders' | 'accounts',
    ...words: string[]
  ): Promise<{ found: string[]; next: string | undefined }> {
    const { code, out, complaint } = await chancery(what, 'list', '--json', ...words)
    assert.equal(code, 0, complaint)
    const found = (JSON.parse(out) as { id: string }[]).map(({ id }) => id)
    return { found, next: /--cursor (\S+)/.exec(complaint)?.[1] }
  }
  const certificates = async (...words: string[]) => (await list('certificates', ...words)).found
  const numbers = (found: readonly string[]) => found.map((id) => ids.indexOf(id))
  const day = (days: number) => new Date(Date.now() + days * DAY_MS).toISOString()

  test('without a filter all certificates come, newest first', async () => {
    assert.deepEqual(numbers(await certificates()), [4, 3, 2, 1, 0])
  })

  for (const [order, words, expected] of [
    ['the newest first', [], [[4, 3], [2, 1], [0]]],
    ['along the expiry', ['--status', 'active', '--sort=-not_after'], [[2, 4], [1]]],
  ] as const)
    test(`pages follow each other by the cursor, to the end: ${order}`, async () => {
      const pages: number[][] = []
      for (let cursor: string | undefined = ''; cursor !== undefined; ) {
        const { found, next } = await list('certificates', ...words, '--limit', '2', '--cursor', cursor)
        pages.push(numbers(found))
        cursor = next
      }
      assert.deepEqual(pages, expected)
    })

  for (const [title, words, expected] of [
    ['--status active, the one that lives longest first', ['--status', 'active', '--sort=-not_after'], [2, 4, 1]],
    ['--status revoked', ['--status', 'revoked'], [3]],
    ['--status expired', ['--status', 'expired'], [0]],
    [
      '--expiring-before with --status active, soonest first',
      ['--status', 'active', '--expiring-before', day(40), '--sort', 'not_after'],
      [1, 4],
    ],
    ['--expiring-after and --expiring-before', ['--expiring-after', day(5), '--expiring-before', day(25)], [3, 1]],
    ['--issued-before', ['--issued-before', day(-1)], []],
    ['--issued-after', ['--issued-after', day(-1)], [4, 3, 2, 1, 0]],
    ['--issuer', ['--issuer', FINGERPRINTS[0].toString('hex')], [0]],
    ['--issuer with --status revoked', ['--issuer', FINGERPRINTS[0].toString('hex'), '--status', 'revoked'], []],
  ] as const) {
    test(title, async () => {
      assert.deepEqual(numbers(await certificates(...words)), expected)
    })
  }

  test('--account-id, --domain and --serial', async () => {
    assert.deepEqual(numbers(await certificates('--account-id', requester.accountId)), [3, 2, 1, 0])
    assert.deepEqual(numbers(await certificates('--account-id', requester.accountId, '--status', 'active')), [2, 1])
    const page = await list('certificates', '--account-id', requester.accountId, '--limit', '3', '--cursor', '')
    const rest = await certificates('--account-id', requester.accountId, '--cursor', page.next ?? '')
    assert.deepEqual(numbers(rest), [0])
    assert.deepEqual(numbers(await certificates('--domain', (names[2] as string).toUpperCase())), [2])
    const [row] = await store.sql<{ serial: string }>(
      "SELECT encode(serial_number, 'hex') AS serial FROM certificates WHERE id = $1",
      [ids[1]],
    )
    assert.deepEqual(numbers(await certificates('--serial', `00:${row?.serial}`)), [1])
  })

  test('search indexes change the way and not the answer, and can be dropped again', async () => {
    const made = await chancery('db', 'search-indexes')
    assert.deepEqual(
      [made.code, made.out.match(/^\w+/gm)],
      [
        0,
        words`
          certificates_issuer certificates_spki certificates_revoked_expiry orders_names accounts_contacts
          certificates_first_name
        `,
      ],
    )
    assert.deepEqual(numbers(await certificates('--domain', names[2] as string)), [2])
    assert.deepEqual(numbers(await certificates('--issuer', FINGERPRINTS[0].toString('hex'))), [0])
    const orderOf = async (...words: string[]) => {
      const { found } = await list('orders', '--domain', names[4] as string, ...words)
      return (
        await store.sql<{ id: string }>('SELECT certificate_id AS id FROM orders WHERE id = ANY ($1)', [found])
      ).map(({ id }) => id)
    }
    assert.deepEqual(numbers(await orderOf()), [4])
    assert.deepEqual(numbers(await orderOf('--account-id', other.accountId, '--status', 'valid')), [4])
    assert.deepEqual(await orderOf('--account-id', requester.accountId), [])
    assert.deepEqual(await orderOf('--status', 'invalid'), [])
    const accounts = await list('accounts', '--contact', 'ops@lists.example')
    assert.deepEqual(accounts.found, [requester.accountId])
    const dropped = await chancery('db', 'search-indexes', '--drop')
    assert.equal(dropped.code, 0)
    assert.deepEqual(await store.sql("SELECT FROM pg_class WHERE relname = 'certificates_issuer'"), [])
  })

  test('orders by account, status and name', async () => {
    const name = aName('pending')
    const pending = await anOrder(store, other, {}, [name])
    const ready = await aReadyOrder(store, other)
    const orders = async (...words: string[]) => (await list('orders', ...words)).found
    assert.deepEqual(await orders('--account-id', other.accountId, '--status', 'pending'), [pending.id])
    assert.deepEqual(await orders('--status', 'ready'), [ready.id])
    assert.deepEqual(await orders('--status', 'processing'), [])
    assert.deepEqual((await orders('--account-id', requester.accountId)).length, 4)
    assert.deepEqual(await orders('--domain', name), [pending.id])
    assert.deepEqual(await orders('--created-before', day(-1)), [])
    await store.issuance.begin(anIntent({ id: ready.id, requester: other }))
    assert.deepEqual(await orders('--status', 'processing'), [ready.id])
    await store.sql('UPDATE authorizations SET status = $2 WHERE id = ANY ($1)', [pending.authorizationIds, 'invalid'])
    assert.deepEqual(await orders('--status', 'invalid'), [pending.id])
  })

  test('accounts by status, contact and credential', async () => {
    const { account, requester: gone } = await anAccount(store)
    await store.accounts.deactivate(gone)
    const accounts = async (...words: string[]) => (await list('accounts', ...words)).found
    assert.deepEqual(await accounts('--status', 'deactivated'), [account.id])
    assert.deepEqual(await accounts('--status', 'valid', '--contact', 'mailto:ops@lists.example'), [
      requester.accountId,
    ])
    assert.deepEqual(await accounts('--eab-kid', 'unknown'), [])
    assert.deepEqual(await accounts('--tag', 'unknown'), [])
  })

  test('as a table, with the options of the next page on standard error', async () => {
    const { code, out, complaint } = await chancery('certificates', 'list', '--limit', '2')
    assert.equal(code, 0)
    const [heading, first, second, ...rest] = out.trimEnd().split('\n')
    assert.match(heading ?? '', /^serial_number +san_values +account_name +key_type +not_after +revoked_at$/)
    assert.match(first ?? '', new RegExp(`^[0-9a-f]+ +${names[4]} +\\S+ +- +\\S+Z +-$`))
    assert.match(second ?? '', new RegExp(` ${names[3]} +\\S+ +- +\\S+Z +\\S+Z$`))
    assert.deepEqual(rest, [])
    assert.equal(complaint, 'there are more: --all, or --limit 2 --offset 2\n')
    const none = await chancery('certificates', 'list', '--domain', 'nobody.example')
    assert.deepEqual([none.code, none.out, none.complaint], [0, '', 'none\n'])
  })

  test('eab list: newest first, a page at a time, a line each', async () => {
    const none = await chancery('eab', 'list')
    assert.deepEqual([none.code, none.out, none.complaint], [0, '', 'none\n'])
    const grants = await openGrants(store.settings)
    const made = []
    for (const kid of ['one', 'two', 'three']) {
      const rights = { profiles: ['short', 'long'], preapprovedNetworks: ['10.0.0.0/8'] }
      made.push(await grants.credential({ kid, label: `of ${kid}`, ...rights }))
    }
    const [one, two, three] = made.map(({ id }) => id) as [string, string, string]
    await grants.revoke(two)
    await grants.end()
    const first = await chancery('eab', 'list', '--limit', '2')
    assert.equal(first.complaint, 'there are more: --all, or --limit 2 --offset 2\n')
    const [heading, newest, second, ...rest] = first.out.trimEnd().split('\n')
    assert.match(heading ?? '', /^id +kid +label +tags +revoked +used +created_at$/)
    assert.match(newest ?? '', new RegExp(`^${three} +three +of three +- +false +false +\\S+$`))
    assert.match(second ?? '', new RegExp(`^${two} +two +of two +- +true +false +\\S+$`))
    assert.deepEqual(rest, [])
    const last = await chancery('eab', 'list', '--limit', '2', '--cursor', two)
    assert.match(last.out, new RegExp(`^.*\n${one} .*\n$`))
    assert.equal(last.complaint, '')
    const past = await chancery('eab', 'list', '--cursor', one)
    assert.deepEqual([past.code, past.out, past.complaint], [0, '', 'none\n'])
  })

  test('eab list --json has of a credential everything but its key', async () => {
    const { code, out } = await chancery('eab', 'list', '--json', '--limit', '1')
    assert.equal(code, 0)
    const [{ id, created_at: createdAt, ...facts }, ...others] = JSON.parse(out)
    assert.deepEqual(others, [])
    assert.match(`${id} ${createdAt}`, /^[0-9a-f-]{36} \d{4}-.*Z$/)
    assert.deepEqual(facts, {
      kid: 'three',
      label: 'of three',
      created_by: null,
      account_id: null,
      account_name: null,
      used: false,
      used_at: null,
      revoked: false,
      profiles: ['short', 'long'],
      preapproved_networks: ['10.0.0.0/8'],
      expires_at: null,
      max_uses: null,
      uses: 0,
      allowed_networks: null,
      tags: [],
    })
  })

  test('eab list refuses what it does not take, with what is right', async () => {
    for (const [words, code, complaint] of [
      [['--limit', '1001'], 2, "'limit' must be a whole number from 1 to 1000"],
      [['--limit', 'many'], 2, '--limit many: takes a whole number'],
      [['--cursor', 'kid'], 2, "'cursor' must be empty for the first page, or taken from a page's Link"],
      [['--cursor', newId(), '--cursor', newId()], 2, '--cursor: is given twice'],
      [['--to-end'], 2, 'unknown option: --to-end'],
    ] as const) {
      const result = await chancery('eab', 'list', ...words)
      assert.equal(result.code, code, result.complaint)
      assert.ok(result.complaint.includes(complaint), result.complaint)
    }
  })

  for (const [words, complaint] of [
    [['--status', 'gone'], '--status gone: is one of active, revoked, expired'],
    [['--limit', '0'], "'limit' must be a whole number from 1 to 1000"],
    [['--account-id', 'me'], "'account_id' must be a UUID"],
    [['--cursor', '7'], "'cursor' must be empty for the first page, or taken from a page's Link"],
    [['--serial', 'xyz'], "'serial' must be a serial number in hexadecimal"],
    [['--expiring-before', 'soon'], "'expiring_before' must be a time such as 2026-01-31T12:00:00Z, or a date"],
  ] as const) {
    test(`${words.join(' ')} is refused with what is right`, async () => {
      const result = await chancery('certificates', 'list', ...words)
      assert.equal(result.code, 2)
      assert.ok(result.complaint.includes(complaint), result.complaint)
    })
  }
})

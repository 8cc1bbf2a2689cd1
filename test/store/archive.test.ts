/** The archive: what expired long ago stands in files, is gone from the database, and nothing is lost in between. */

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import {
  appendFileSync,
  copyFileSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { open } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { beforeEach, describe, test } from 'node:test'
import { gunzipSync } from 'node:zlib'
import { type ArchiveOptions, archiveExpired } from '../../src/services/archive/archive.ts'
import { MANIFEST } from '../../src/services/archive/archive-files.ts'
import { type ArchivedCertificate, findArchived, verifyArchive } from '../../src/services/archive/archive-reader.ts'
import type { Requester } from '../../src/store/account-store.ts'
import { type ArchiveStore, createArchiveStore } from '../../src/store/archive-store.ts'
import { ALREADY_REPLACED } from '../../src/store/order-store.ts'
import { createRetentionStore } from '../../src/store/retention-store.ts'
import { renderCertId } from '../support/certificate-id.ts'
import { each } from '../support/each.ts'
import { aCertificate, aNewOrder, anAccount, type anIntent, jumped, useStores } from './support.ts'

const DAY_MS = 86_400_000
const daysAgo = (days: number) => new Date(Math.floor((Date.now() - days * DAY_MS) / 1000) * 1000)

const store = useStores()
let requester: Requester
let folder: string
beforeEach(async (t) => {
  await store.sql(
    'TRUNCATE orders, authorizations, cleanup_progress, replacements, certificates, expiration_notices, slow_clock',
  )
  ;({ requester } = await anAccount(store))
  folder = mkdtempSync(path.join(tmpdir(), 'chancery-archive-'))
  ;(t as { after?(done: () => void): void }).after?.(() => rmSync(folder, { recursive: true, force: true }))
})

/** A certificate that expired this long ago, with its order. */
async function anExpired(days: number, over: Parameters<typeof anIntent>[1] = {}) {
  const times = { notBefore: daysAgo(days + 90), notAfter: daysAgo(days) }
  const { order, intent, issued } = await aCertificate(store, requester, { intent: over, issued: times })
  const serial = intent.serialNumber.toString('hex')
  return {
    id: intent.certificateId,
    order: order.id,
    authorization: order.authorizationIds[0],
    serial,
    der: issued.der,
  }
}

async function isThere(table: string, id: string, column = 'id'): Promise<boolean> {
  return (await store.sql(`SELECT FROM ${table} WHERE ${column} = $1`, [id])).length > 0
}

function round(over: Partial<ArchiveOptions> = {}): Promise<number> {
  return archiveExpired({
    store: createArchiveStore(store.db),
    progress: createRetentionStore(store.db),
    policy: { folder, certificateAgeMs: 30 * DAY_MS, pauseSeconds: 0 },
    leftLists: async () => daysAgo(31),
    onArchived: () => undefined,
    onRemoved: () => undefined,
    isStopping: () => false,
    rest: async () => undefined,
    ...over,
  })
}

const revoke = (certificateId: string) =>
  store.certificates.revoke({ certificateId, reason: 4, blockedKey: undefined, requester: undefined })

const files = () => readdirSync(folder).filter((name) => name.endsWith('.gz'))
const linesIn = (file: string): ArchivedCertificate[] =>
  gunzipSync(readFileSync(path.join(folder, file)))
    .toString()
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))

/** A store whose removal fails, as when the process or the database dies after the file is written. */
const dyingBeforeRemoval = (): ArchiveStore => ({
  ...createArchiveStore(store.db),
  remove: () => Promise.reject(new Error('died')),
})

describe('the archive', () => {
  test('takes a certificate, its order and its evidence, and removes certificate and order', async () => {
    const { id, order, authorization, serial, der } = await anExpired(31)
    await store.sql(`UPDATE authorizations SET evidence = '{"result": "valid"}' WHERE id = $1`, [authorization])
    assert.equal(await round(), 1)
    assert.equal(await isThere('certificates', id), false)
    assert.equal(await isThere('orders', order), false)
    for (const key of [id, serial]) {
      const { certificate } = await findArchived(folder, key)
      assert.ok(certificate)
      assert.equal(certificate.der, der.toString('base64'))
      assert.equal(certificate['account_id'], requester.accountId)
      const { id: orderId, identifiers } = certificate['order'] as { id: string; identifiers: { type: string }[] }
      assert.deepEqual([orderId, identifiers[0]?.type], [order, 'dns'])
      const [first] = certificate['authorizations'] as { id: string; evidence: unknown; token?: string }[]
      assert.deepEqual([first?.id, first?.evidence, first?.token], [authorization, { result: 'valid' }, undefined])
    }
  })

  test('leaves what expired later', async () => {
    const { id } = await anExpired(29)
    assert.equal(await round(), 0)
    assert.equal(await isThere('certificates', id), true)
    assert.deepEqual(files(), [])
  })

  test('leaves what has not expired by the clock of the database, whatever that of its host says', async () => {
    const { id } = await anExpired(-1)
    assert.equal(await round({ policy: { folder, certificateAgeMs: -400 * DAY_MS, pauseSeconds: 0 } }), 0)
    assert.equal(await isThere('certificates', id), true)
  })

  test('leaves what expired by clocks that jumped, the database’s too, and had not before', async () => {
    const { id } = await anExpired(300)
    await jumped(store, 400)
    assert.equal(await round(), 0)
    assert.equal(await isThere('certificates', id), true)
  })

  test('removes what is about the certificate', async () => {
    const { id } = await anExpired(31)
    const rows = {
      renewal_advice: `(certificate_id, window_start, window_end) VALUES ($1, '2026-01-01', '2026-01-02')`,
      upstream_renewals: "(certificate_id, backend) VALUES ($1, 'external')",
      expiration_notices: '(certificate_id, warning_days) VALUES ($1, 7)',
      replacements: '(certificate_id, order_id, request_key) VALUES ($1, gen_random_uuid(), gen_random_uuid())',
      signed_certificate_timestamps: `(certificate_id, log_url, log_id, signed_at, extensions, signature, verified)
         VALUES ($1, 'https://log.example', '\\x01', now(), '', '\\x02', true)`,
    }
    for (const [table, values] of Object.entries(rows)) await store.sql(`INSERT INTO ${table} ${values}`, [id])
    await round()
    for (const table of Object.keys(rows)) assert.equal(await isThere(table, id, 'certificate_id'), false, table)
    const found = await findArchived(folder, id)
    const [timestamp] = (found.certificate?.['timestamps'] ?? []) as { log_url: string }[]
    assert.equal(timestamp?.log_url, 'https://log.example')
  })

  // RFC 9773 §5: a certificate is replaced once, also when the order that did it is in the archive.
  test('keeps a live certificate replaced when the certificate that replaced it is archived', async () => {
    const live = await anExpired(-300)
    const keyIdentifier = Buffer.alloc(20, 1)
    const certId = renderCertId({ keyIdentifier, serialNumber: Buffer.from(live.serial, 'hex') })
    const replaces = { certificateId: live.id, certId }
    const { order } = await anExpired(31)
    await store.sql(
      'INSERT INTO replacements (certificate_id, order_id, request_key) VALUES ($1, $2, gen_random_uuid())',
      [live.id, order],
    )
    assert.equal(await round(), 1)
    assert.equal(await store.orders.create(aNewOrder(requester, { replaces })), ALREADY_REPLACED)
  })

  describe('and revoked certificates (RFC 5280 §3.3)', () => {
    test('one that a list may still need stays, and the others go', async () => {
      const [revoked, other] = [await anExpired(40), await anExpired(39)]
      await revoke(revoked.id)
      assert.equal(await round(), 1)
      assert.equal(await isThere('certificates', revoked.id), true)
      assert.equal(await isThere('certificates', other.id), false)
      await store.sql('UPDATE certificates SET revoked_at = $2 WHERE id = $1', [revoked.id, daysAgo(32)])
      assert.equal(await round({ leftLists: async () => undefined }), 0)
      assert.equal(await round(), 1)
      assert.equal((await findArchived(folder, revoked.id)).certificate?.['revocation_reason'], 4)
    })

    test('one that another CA has yet to revoke stays', async () => {
      const { id } = await anExpired(40)
      await revoke(id)
      await store.sql('UPDATE certificates SET revoked_at = $2 WHERE id = $1', [id, daysAgo(35)])
      await store.sql("INSERT INTO backend_revocations VALUES ($1, 'external', '', 4)", [id])
      assert.equal(await round(), 0)
      await store.sql('TRUNCATE backend_revocations')
      assert.equal(await round(), 1)
    })

    test('one that is revoked between file and removal stays, and its later record counts', async () => {
      const { id } = await anExpired(40)
      const store_ = createArchiveStore(store.db)
      const remove: ArchiveStore['remove'] = async (rows) => {
        await revoke(id)
        return store_.remove(rows)
      }
      assert.equal(await round({ store: { ...store_, remove } }), 0)
      assert.equal(await isThere('certificates', id), true)
      assert.equal(await round({ leftLists: async () => new Date(Date.now() + DAY_MS) }), 1)
      assert.equal((await findArchived(folder, id)).certificate?.['revocation_reason'], 4)
    })
  })

  test('has everything after a death between file and removal', async () => {
    const { id, serial } = await anExpired(40)
    // Twice: the file is the same, and is named once.
    for (const _ of [1, 2]) await assert.rejects(round({ store: dyingBeforeRemoval() }), /died/)
    assert.equal(await isThere('certificates', id), true)
    assert.equal(await round(), 1)
    const { faults, unnamed, certificates } = await verifyArchive(folder)
    assert.deepEqual({ faults, unnamed, certificates }, { faults: [], unnamed: [], certificates: 1 })
    assert.equal((await findArchived(folder, serial)).certificate?.id, id)
  })

  test('removes nothing when the file cannot be written', async () => {
    const { id } = await anExpired(40)
    const inTheWay = path.join(folder, 'file')
    writeFileSync(inTheWay, '')
    await assert.rejects(
      round({ policy: { folder: inTheWay, certificateAgeMs: 0, pauseSeconds: 0 } }),
      /EEXIST|ENOTDIR/,
    )
    assert.equal(await isThere('certificates', id), true)
  })

  test('writes pages to one file, in the order of expiry', async () => {
    const made = []
    for (const days of [33, 31, 35, 32, 34]) made.push({ days, ...(await anExpired(days)) })
    assert.equal(await round(), 5)
    const [file = ''] = files()
    const expected = made.toSorted((one, other) => other.days - one.days).map(({ id }) => id)
    assert.deepEqual(each(linesIn(file), 'id'), expected)
    assert.match(file, /^\d{8}-\d{8}-[0-9a-f]{12}\.jsonl\.gz$/)
  })

  test('is due once in its pause', async () => {
    const policy = { folder, certificateAgeMs: 30 * DAY_MS, pauseSeconds: 3600 }
    await anExpired(31)
    assert.equal(await round({ policy }), 1)
    await anExpired(31)
    assert.equal(await round({ policy }), 0)
  })
})

describe('the manifest', () => {
  async function threeFiles(): Promise<string[]> {
    for (let file = 0; file < 3; file++) {
      await anExpired(40)
      await round()
    }
    const lines = readFileSync(path.join(folder, MANIFEST), 'utf8').trim().split('\n')
    return lines.map((line) => (JSON.parse(line) as { file: string }).file)
  }
  const faults = async () => (await verifyArchive(folder)).faults

  test('chains the files', async () => {
    assert.equal((await threeFiles()).length, 3)
    assert.deepEqual(await faults(), [])
  })

  test('shows a file that was changed, and one that is missing', async () => {
    const [first = '', second = ''] = await threeFiles()
    appendFileSync(path.join(folder, first), 'x')
    rmSync(path.join(folder, second))
    const [changed, missing] = await faults()
    assert.match(changed ?? '', new RegExp(`^${first}: is not as the manifest has it`))
    assert.match(missing ?? '', new RegExp(`^${second}: ENOENT`))
  })

  test('of a file that is cut off, damaged or missing only its own certificates are not found, and it is named', async () => {
    await threeFiles()
    const { id } = await anExpired(45)
    await round()
    const [missing = '', damaged = '', cut = ''] = (await threeFiles()).toReversed()
    rmSync(path.join(folder, missing))
    writeFileSync(path.join(folder, damaged), 'no gzip')
    truncateSync(path.join(folder, cut), 100)
    const { certificate, faults: named } = await findArchived(folder, id)
    assert.equal(certificate?.id, id)
    assert.deepEqual(named, [
      `${missing}: ENOENT, there is no such file`,
      `${damaged}: Z_DATA_ERROR, it is damaged`,
      `${cut}: Z_BUF_ERROR, it is cut off`,
    ])
  })

  test('of a file that it does not name it says how many certificates stand nowhere else', async () => {
    await threeFiles()
    const manifest = path.join(folder, MANIFEST)
    const [first = '', ...rest] = readFileSync(manifest, 'utf8').trim().split('\n')
    const { file } = JSON.parse(first) as { file: string }
    writeFileSync(manifest, `${rest.join('\n')}\n`)
    const unnamed = async (stored?: (ids: string[]) => Promise<string[]>) =>
      (await verifyArchive(folder, stored)).unnamed
    assert.deepEqual(await unnamed(createArchiveStore(store.db).stored), [{ file, certificates: 1, only: 1 }])
    assert.deepEqual(await unnamed(async (ids) => ids), [{ file, certificates: 1, only: 0 }])
    const again = JSON.stringify({ ...(JSON.parse(first) as object), file: `again-${file}` })
    copyFileSync(path.join(folder, file), path.join(folder, `again-${file}`))
    appendFileSync(manifest, `${again}\n`)
    assert.deepEqual(await unnamed(), [{ file, certificates: 1, only: 0 }])
    // What is not as it was written keeps nothing safe, however well it can be read.
    writeFileSync(
      manifest,
      readFileSync(manifest, 'utf8').replace(/"sha256":"(?=[^"]*"[^\n]*\n$)[^"]*"/, '"sha256":""'),
    )
    assert.deepEqual(await unnamed(), [{ file, certificates: 1, only: 1 }])
  })

  test('takes no file for one that is not named when its line comes while the archive is read', async () => {
    await threeFiles()
    const manifest = path.join(folder, MANIFEST)
    const lines = readFileSync(manifest, 'utf8').trim().split('\n')
    const last = lines.pop() ?? ''
    const slow = (JSON.parse(lines[0] ?? '') as { file: string }).file
    const bytes = readFileSync(path.join(folder, slow))
    writeFileSync(manifest, `${lines.join('\n')}\n`)
    // Its reader waits for a writer.
    rmSync(path.join(folder, slow))
    execFileSync('mkfifo', [path.join(folder, slow)])
    const report = verifyArchive(folder, async (ids) => ids)
    const pipe = await open(path.join(folder, slow), 'w')
    appendFileSync(manifest, `${last}\n`)
    rmSync(path.join(folder, slow))
    writeFileSync(path.join(folder, slow), bytes)
    await pipe.writeFile(bytes)
    await pipe.close()
    const { unnamed, faults } = await report
    assert.deepEqual({ unnamed, faults }, { unnamed: [], faults: [] })
  })

  test('shows a line that was taken out', async () => {
    await threeFiles()
    const manifest = path.join(folder, MANIFEST)
    const [first, , third] = readFileSync(manifest, 'utf8').trim().split('\n')
    writeFileSync(manifest, `${first}\n${third}\n`)
    assert.match((await faults())[0] ?? '', /line 2 does not follow the line before/)
    assert.equal((await verifyArchive(folder)).unnamed.length, 1)
  })

  test('goes on behind a line that a crash has torn', async () => {
    await threeFiles()
    const manifest = path.join(folder, MANIFEST)
    truncateSync(manifest, readFileSync(manifest).length - 10)
    await anExpired(40)
    assert.equal(await round(), 1)
    const { faults, files, unnamed } = await verifyArchive(folder)
    assert.deepEqual({ faults, files, unnamed: unnamed.length }, { faults: [], files: 3, unnamed: 1 })
  })

  test('tells what another process has written', async () => {
    await anExpired(40)
    const writing = createArchiveStore(store.db)
    const read: ArchiveStore['read'] = async (...given) => {
      appendFileSync(path.join(folder, MANIFEST), '{}\n')
      return writing.read(...given)
    }
    await assert.rejects(round({ store: { ...writing, read } }), /another process has written/)
    assert.equal((await store.sql('SELECT FROM certificates')).length, 1)
  })
})

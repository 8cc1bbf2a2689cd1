/** Record files beside an audit chain: what a crash leaves, rotation, compression, and the bound on disk. */

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import fs, {
  appendFileSync,
  copyFileSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import path from 'node:path'
import { afterEach, beforeEach, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { gunzipSync, gzipSync } from 'node:zlib'
import { verifyAuditChain } from '../../../signer/audit/audit-commands.ts'
import { type AuditChain, openAuditChain } from '../../../signer/audit/chain.ts'
import type { AuditRecord } from '../../../signer/audit/line.ts'
import { damageOf } from '../../../signer/methods/records.ts'
import { readDecisionLines } from '../../../signer/protocol/record-lines.ts'
import { SignerUnavailable } from '../../../signer/protocol/signer-errors.ts'
import {
  certificateRecord,
  decisionRecord,
  revocationRecord,
  type SignerRecord,
} from '../../../signer/records/record.ts'
import { openRecordFiles, type RecordEvents, type RecordFiles } from '../../../signer/records/record-files.ts'
import { lineOf, linesAfter, serialsAfter } from '../../../signer/records/record-stream.ts'
import { filling, noRoom, withFs } from '../../signer/full-disk.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { until } from '../../support/until.ts'

const content = (method: AuditRecord['method'], serial: string): AuditRecord => ({
  method,
  issuer: 'default',
  serial,
  names: [],
  sha256: 'ab'.repeat(32),
  requester: 'order 1',
})

describe('the record files', () => {
  let folder: string
  let file: string
  let records: RecordFiles
  let chain: AuditChain<SignerRecord>
  let events: RecordEvents
  beforeEach(async () => {
    events = {}
    folder = temporaryFolder()
    file = path.join(folder, 'audit.jsonl')
    await open()
  })
  afterEach(async () => {
    await close()
  })

  async function open(options: { maxBytes?: number; fileBytes?: number } = {}): Promise<void> {
    records = await openRecordFiles(file, { maxBytes: 1e9, fileBytes: 20_000, events, ...options })
    ;({ chain } = await openAuditChain({ path: file, maxBytes: 1e9 }, {}, records))
  }
  async function close(): Promise<void> {
    await chain.close()
    await records.close()
  }
  /** As after kill -9: the kernel has what was written, and nothing was finished. */
  const reopen = async (...options: Parameters<typeof open>) => {
    await close()
    await open(...options)
  }

  const serialOf = (n: number) => (0x400000 + n).toString(16)
  const sign = (n: number) =>
    chain.append(content('signCertificate', serialOf(n)), (place) =>
      certificateRecord(place, { issuer: 'default', serial: serialOf(n), requester: 'order 1' }, randomBytes(300)),
    )
  const signMany = async (from: number, count: number) => {
    // One after the other: each is a group of its own.
    for (let n = from; n < from + count; n++) await sign(n)
  }
  const note = (count: number) =>
    chain.append(content('noteRevocations', ''), (place) =>
      revocationRecord(
        place,
        { issuer: 'default', key: 'ab'.repeat(32) },
        Array.from({ length: count }, (_, n) => [serialOf(n), 1_790_000_000, 1] as const),
      ),
    )

  const decide = (...decisions: object[]) =>
    chain.append(content('noteDecisions', ''), (place) => decisionRecord(place, 'decision', decisions))

  async function serials(after = 0): Promise<string[]> {
    const found: string[] = []
    for (let more = true; more; ) {
      const page = await serialsAfter(records.certificates, after)
      for (let at = 0; at < page.payload.length; at += 11 + page.payload[at + 10]!)
        found.push(page.payload.toString('hex', at + 11, at + 11 + page.payload[at + 10]!))
      ;({ last: after, more } = page)
    }
    return found
  }
  const serialsOf = (from: number, count: number) => Array.from({ length: count }, (_, at) => serialOf(from + at))

  async function revocations(): Promise<string[]> {
    const found: string[] = []
    let after = { seq: 0, part: 0 }
    for (let more = true; more; ) {
      const page = await linesAfter(records.revocations, after)
      for (const text of page.payload.toString().trimEnd().split('\n').filter(Boolean)) {
        const line = JSON.parse(text) as { seq: number; part: number }
        found.push(`${line.seq}.${line.part}`)
      }
      ;({ last: after, more } = page)
    }
    return found
  }

  async function decided(): Promise<object[]> {
    const found: object[] = []
    let after = { seq: 0, part: 0 }
    for (let more = true; more; ) {
      const page = await linesAfter(records.decisions, after)
      for (const { decisions } of readDecisionLines(page.payload)) found.push(...decisions)
      ;({ last: after, more } = page)
    }
    return found
  }

  const filesOf = (stream: string) => readdirSync(folder).filter((name) => name.startsWith(`audit.jsonl.${stream}`))
  const verdict = async () => {
    const found = await verifyAuditChain(file)
    assert.ok(found.ok, JSON.stringify(found))
    return [found.records.found, found.records.missing]
  }

  const unzipped = (name: string) => gunzipSync(readFileSync(path.join(folder, name))).toString()
  const rawOf = (stream: string) => filesOf(stream).filter((name) => /\d{12}-\d{12}$/.test(name))
  async function compressed(): Promise<void> {
    while (['certificates', 'revocations', 'decisions'].some((stream) => rawOf(stream).length > 0)) await sleep(10)
  }

  test('are in order with the chain, however records and lines without one are mixed', async () => {
    const both = [{ act: 'signing.stop' }, { act: 'key.block' }]
    await Promise.all([sign(0), chain.append(content('testSign', '')), note(1200), decide(...both), sign(1), note(0)])
    const areThere = async () => {
      assert.deepEqual(await serials(), serialsOf(0, 2))
      assert.deepEqual(await revocations(), ['3.0', '3.1', '3.2', '6.0'])
      assert.deepEqual(await decided(), both)
    }
    await areThere()
    await reopen()
    await areThere()
    assert.deepEqual(await verdict(), [5, 0])
  })

  test('give decisions back with every character that they had', async () => {
    const decision = { by: 'Jörg 李', reason: 'a\n"\\"\u0000\u007f\u0080\u2028🔑\ud800' }
    await decide(decision)
    assert.deepEqual(await decided(), [decision])
    await reopen()
    assert.deepEqual(await decided(), [decision])
    assert.deepEqual(await verdict(), [1, 0])
  })

  for (const [what, damage] of [
    ['half a line', '{"seq":4,"time":"2026-'],
    ['a record whose line never came', '{"seq":4,"time":"2026-01-01T00:00:00.000Z","serial":"41"}\n'],
    ['zeros, as a loss of power can leave', `${'\0'.repeat(700)}\n`],
  ] as const)
    test(`lose ${what} at their end, and go on`, async () => {
      await signMany(0, 2)
      await decide({ n: 0 })
      await close()
      appendFileSync(`${file}.certificates`, damage)
      appendFileSync(`${file}.decisions`, damage)
      await open()
      await signMany(2, 2)
      await decide({ n: 1 })
      assert.deepEqual(await serials(), serialsOf(0, 4))
      assert.deepEqual(await decided(), [{ n: 0 }, { n: 1 }])
      assert.deepEqual(await verdict(), [6, 0])
    })

  test('lose the record of a line that was torn, whose number the repair takes', async () => {
    await signMany(0, 3)
    await close()
    truncateSync(file, statSync(file).size - 10)
    await open()
    assert.deepEqual(await serials(), serialsOf(0, 2))
    await signMany(3, 1)
    assert.deepEqual(await serials(), [...serialsOf(0, 2), serialOf(3)])
    assert.deepEqual(await verdict(), [3, 0])
  })

  test('lose the last record when it is that of another line with this number', async () => {
    await signMany(0, 3)
    await close()
    const text = readFileSync(`${file}.certificates`, 'utf8')
    writeFileSync(`${file}.certificates`, text.replace(serialOf(2), serialOf(9)))
    await open()
    assert.deepEqual(await serials(), serialsOf(0, 2))
  })

  test('that were lost with the power are missing, and their lines are not', async () => {
    await signMany(0, 3)
    await close()
    truncateSync(`${file}.certificates`, readFileSync(`${file}.certificates`, 'utf8').indexOf('\n') + 1)
    await open()
    await signMany(3, 1)
    assert.deepEqual(await serials(), [serialOf(0), serialOf(3)])
    assert.deepEqual(await verdict(), [2, 2])
  })

  test('that a closed file lost with the power are passed over, up to the number in its name', async () => {
    while (filesOf('certificates').length < 2) await sign(0)
    await note(250)
    await note(250)
    await note(500)
    await compressed()
    await close()
    for (const stream of ['certificates', 'revocations']) {
      const closed = filesOf(stream).find((name) => name.endsWith('.gz'))!
      const place = path.join(folder, closed.replace(/\.gz$/, ''))
      writeFileSync(place, unzipped(closed).split('\n').slice(0, -3).join('\n'))
      for (const suffix of ['.gz', '.index']) rmSync(`${place}${suffix}`, { force: true })
    }
    await open()
    const { certificates, revocations } = records
    let reached = { last: 0, more: true }
    while (reached.more) reached = await serialsAfter(certificates, reached.last)
    assert.equal(reached.last, certificates.last)
    const page = await linesAfter(revocations, { seq: 0, part: 0 })
    assert.deepEqual([page.last.seq, page.more], [revocations.last, false])
  })

  test('refuse the start when the chain is older than they are', async () => {
    await signMany(0, 1)
    copyFileSync(file, `${file}.backup`)
    await Promise.all(Array.from({ length: 600 }, (_, n) => sign(n)))
    await close()
    copyFileSync(`${file}.backup`, file)
    await assert.rejects(open(), /newer than the audit chain/)
    for (const name of filesOf('certificates')) rmSync(path.join(folder, name))
    await open()
  })

  test('are closed at their size, compressed with an index, and read on as before', async () => {
    await signMany(0, 200)
    for (let n = 0; n < 3; n++) await note(1200)
    assert.deepEqual(await serials(), serialsOf(0, 200))
    await compressed()
    await close()
    const zipped = filesOf('certificates').filter((name) => name.endsWith('.gz'))
    assert.ok(zipped.length > 3, zipped.join())
    for (const name of zipped) {
      const [, first, last] = /\.(\d{12})-(\d{12})\.gz$/.exec(name)!
      const lines = unzipped(name).trimEnd().split('\n')
      assert.deepEqual(
        [first, last].map(Number),
        [lines[0], lines.at(-1)].map((line) => JSON.parse(line!).seq),
      )
    }
    await open()
    assert.deepEqual(await serials(), serialsOf(0, 200))
    assert.deepEqual(await serials(150), serialsOf(150, 50))
    assert.equal((await revocations()).length, 9)
    const line = JSON.parse(String(await lineOf(records.certificates, 7)))
    assert.deepEqual([line.seq, line.serial], [7, serialOf(6)])
    assert.equal(await lineOf(records.certificates, 201), undefined)
    assert.deepEqual(await verdict(), [203, 0])
  })

  test('are compressed at the next start when a crash came before, and indexes are made again', async () => {
    await signMany(0, 200)
    await compressed()
    await close()
    const [first, second, third] = filesOf('certificates').filter((name) => name.endsWith('.gz'))
    const place = (name: string) => path.join(folder, name.replace(/\.gz$/, ''))
    // Between closing and the index; between index and removal; and an index that is damaged.
    writeFileSync(place(first!), unzipped(first!))
    rmSync(path.join(folder, first!))
    rmSync(`${place(first!)}.index`)
    writeFileSync(place(second!), unzipped(second!))
    truncateSync(`${place(third!)}.index`, 20)
    await open()
    assert.deepEqual(await serials(), serialsOf(0, 200))
    await compressed()
    assert.deepEqual(await serials(), serialsOf(0, 200))
  })

  test('go from the oldest when they reach their bound', async () => {
    const dropped: [string, number][] = []
    events.dropped = (stream, last) => dropped.push([stream, last])
    await reopen({ maxBytes: 40_000 })
    let count = 600
    await signMany(0, count)
    await compressed()
    // What was written since the last file was closed counts, too, and goes when the next one is.
    for (; records.certificates.bytes > 30_000; count++) {
      await sign(count)
      await sleep(10)
    }
    // A file is gone a moment before it is told.
    await until('the last one is told', () => records.certificates.first === (dropped.at(-1)?.[1] ?? 0) + 1)
    const kept = await serials()
    assert.ok(dropped.length > 0)
    assert.deepEqual(kept, serialsOf(count - kept.length, kept.length))
    assert.ok(records.certificates.bytes <= 30_000)
    assert.deepEqual(await verdict(), [kept.length, 0])
  })

  test('of decisions have a sixteenth of the bound, and push out no others', async () => {
    const dropped = new Set<string>()
    events.dropped = (stream) => dropped.add(stream)
    await reopen({ maxBytes: 320_000 })
    await sign(0)
    await note(1)
    // Random, because what is kept is compressed.
    while (!dropped.has('decisions')) await decide({ reason: randomBytes(2_000).toString('base64') })
    await compressed()
    assert.ok(records.decisions.closed.bytes <= 20_000)
    // Where the disk is slow a file grows beyond the bound before it is closed, and goes as a whole.
    await decide({ act: 'the newest' })
    assert.deepEqual([[...dropped], await serials(), await revocations()], [['decisions'], serialsOf(0, 1), ['2.0']])
    const page = await linesAfter(records.decisions, { seq: 0, part: 0 })
    assert.equal(readDecisionLines(page.payload)[0]?.seq, records.decisions.first)
    assert.ok(records.decisions.first > 3)
    assert.ok((await verifyAuditChain(file)).ok)
  })

  for (const [stream, from, to] of [
    ['certificates', 'order 1', 'order 2'],
    ['revocations', '1790000000', '1790000001'],
    ['decisions', 'key.block', 'key.black'],
  ] as const)
    test(`that somebody changed or put there do not verify: ${stream}`, async () => {
      await signMany(0, 100)
      await note(1)
      await decide({ act: 'key.block' })
      await close()
      const text = readFileSync(`${file}.${stream}`, 'utf8')
      writeFileSync(`${file}.${stream}`, text.replace(from, to))
      const found = await verifyAuditChain(file)
      assert.ok(!found.ok)
      assert.match(found.reason, new RegExp(`its record in .*audit\\.jsonl\\.${stream} is another one`))
      writeFileSync(`${file}.${stream}`, text)
      await open()
    })

  test('stop the chain when somebody else moves them', async () => {
    await signMany(0, 1)
    rmSync(`${file}.certificates`)
    await assert.rejects(sign(1), SignerUnavailable)
    assert.match(chain.failure!.message, /audit\.jsonl\.certificates was moved or removed/)
  })

  for (const [what, octets] of [
    ['a part of a record was written', 100],
    ['nothing was written', 0],
  ] as const)
    test(`are cut back with the chain when the disk is full and ${what}, and go on with it`, async (context) => {
      await signMany(0, 2)
      const contents = () => [file, `${file}.certificates`, `${file}.decisions`].map((one) => readFileSync(one))
      const before = contents()
      await withFs(context, 'write', filling(octets), async () => {
        const outcomes = await Promise.allSettled([sign(2), note(3), decide({ n: 0 }), sign(3)])
        assert.ok(outcomes.every(({ status }) => status === 'rejected'))
        assert.deepEqual(contents(), before)
      })
      while (chain.failure) await sleep(20)
      await signMany(4, 1)
      await decide({ n: 1 })
      assert.deepEqual(await serials(), [...serialsOf(0, 2), serialOf(4)])
      assert.deepEqual(await decided(), [{ n: 1 }])
      assert.deepEqual(await verdict(), [4, 0])
    })

  test('take no decision, and say so, while the disk is full', async (context) => {
    await withFs(context, 'write', filling(100), async () => {
      await assert.rejects(decide({ act: 'signing.stop' }), SignerUnavailable)
    })
    while (chain.failure) await sleep(20)
    assert.deepEqual(await decided(), [])
  })

  test('are compressed later when there is no room for it, and nothing stops', async (context) => {
    const failures: Error[] = []
    events.failed = (error) => failures.push(error)
    const real = fs.promises.writeFile
    context.mock.method(fs.promises, 'writeFile', ((name: string, ...more: [string]) => {
      if (String(name).endsWith('.gz.new')) throw noRoom()
      return real(name, ...more)
    }) as typeof real)
    syncBuiltinESMExports()
    try {
      await signMany(0, 100)
      while (failures.length === 0) await sleep(10)
    } finally {
      context.mock.restoreAll()
      syncBuiltinESMExports()
    }
    assert.match(failures[0]!.message, /ENOSPC/)
    assert.equal(chain.failure, undefined)
    assert.deepEqual(await serials(), serialsOf(0, 100))
  })

  describe('that are damaged', () => {
    const NONE = { lines: 0, first: 0 }
    const told: [string, number][] = []
    const search = () => damageOf(records, (stream, { lines }) => told.push([stream, lines]))
    const flip = (name: string, from: string, to: string) => {
      const place = path.join(folder, name)
      const bytes = readFileSync(place, 'latin1')
      assert.ok(bytes.includes(from))
      writeFileSync(place, bytes.replace(from, to), 'latin1')
    }
    const refused = async () => {
      const found = await verifyAuditChain(file)
      assert.ok(!found.ok)
      return found.reason
    }
    beforeEach(() => {
      told.length = 0
    })

    test('are counted by stream, with the first line, and told once; nobody is sent such a line', async () => {
      await signMany(0, 2)
      for (let n = 0; n < 3; n++) await note(1)
      for (let n = 0; n < 3; n++) await decide({ n })
      assert.deepEqual(await search()(), { certificates: NONE, revocations: NONE, decisions: NONE })
      // A digit of a serial number, half a head, and a value of a decision: what is left of each is JSON, or a line.
      flip('audit.jsonl.revocations', '"400000"', '"400001"')
      flip('audit.jsonl.decisions', '{"seq":6,', '{"sea":6,')
      flip('audit.jsonl.decisions', '"n":1', '"n":7')
      await reopen()
      const found = { certificates: NONE, revocations: { lines: 1, first: 3 }, decisions: { lines: 2, first: 7 } }
      assert.deepEqual(await search()(), found)
      assert.deepEqual([await revocations(), await decided()], [['4.0', '5.0'], [{ n: 2 }]])
      assert.match(await refused(), /its record in .*revocations is another one/)
      told.length = 0
      const one = search()
      await one()
      await one()
      assert.deepEqual(told, [
        ['revocations', 1],
        ['decisions', 2],
      ])
    })

    test('between two lines do not verify either', async () => {
      for (let n = 0; n < 3; n++) await decide({ n })
      flip('audit.jsonl.decisions', '{"seq":2,', '{"sea":2,')
      assert.match(await refused(), /^1 record from here on cannot be read$/)
    })

    test('at their end are cut off by the start, which says so', async () => {
      for (let n = 0; n < 3; n++) await decide({ n })
      await close()
      flip('audit.jsonl.decisions', '"n":2', '"n":3')
      await open()
      assert.deepEqual((await search()()).decisions, { lines: 1, first: 3 })
    })

    test('in a closed file are passed over, and counted until it is gone', async () => {
      await reopen({ fileBytes: 4_000 })
      while (records.decisions.closed.count < 3) await decide({ reason: randomBytes(200).toString('hex') })
      const all = (await decided()).length
      await compressed()
      await close()
      const [first, second] = filesOf('decisions').filter((name) => name.endsWith('.gz'))
      const bytes = readFileSync(path.join(folder, first!))
      bytes[bytes.length >> 1]! ^= 1
      writeFileSync(path.join(folder, first!), bytes)
      const text = unzipped(second!)
      writeFileSync(path.join(folder, second!), gzipSync(text.replace(/"reason":"./, '"reason":"x')))
      await open({ fileBytes: 4_000 })
      const lost = records.decisions.closed.oldest!.last + 1
      assert.equal((await decided()).length, all - lost)
      let now = 0
      const performanceNow = performance.now
      performance.now = () => now
      try {
        const look = search()
        for (; now < 20_000; now += 5_001) await look()
        assert.deepEqual((await look()).decisions, { lines: 2, first: 1 })
        await records.decisions.closed.drop()
        now += 5_001
        assert.deepEqual((await look()).decisions, { lines: 1, first: lost })
      } finally {
        performance.now = performanceNow
      }
      assert.match(await refused(), /another one|cannot be read/)
    })

    test('are not those that an earlier release wrote without a checksum', async () => {
      await decide({ n: 0 })
      await decide({ n: 1 })
      await close()
      flip('audit.jsonl.decisions', /,"sum":"\w+"/.exec(readFileSync(`${file}.decisions`, 'latin1'))![0], '')
      await open()
      assert.deepEqual([(await search()()).decisions, await decided()], [NONE, [{ n: 0 }, { n: 1 }]])
    })
  })

  test('keep the identity of their chain', async () => {
    const { chain: identity } = records
    assert.match(identity, /^[0-9a-f]{32}$/)
    await reopen()
    assert.equal(records.chain, identity)
    await close()
    writeFileSync(`${file}.records-id`, 'damaged')
    await assert.rejects(open(), /is not the identity of an audit chain/)
    writeFileSync(`${file}.records-id`, identity)
    await open()
  })
})

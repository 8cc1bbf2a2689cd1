import assert from 'node:assert/strict'
import fs, {
  appendFileSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import path from 'node:path'
import { beforeEach, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { exportAudit, followLines, lastLines, verifyAuditChain } from '../../../signer/audit/audit-commands.ts'
import { openAuditChain } from '../../../signer/audit/chain.ts'
import {
  type AuditLine,
  type AuditRecord,
  auditLines,
  closedSegments,
  NO_PREVIOUS,
  segmentName,
} from '../../../signer/audit/line.ts'
import { SignerUnavailable } from '../../../signer/protocol/signer-errors.ts'
import { filling, noRoom, withFs } from '../../signer/full-disk.ts'
import { each } from '../../support/each.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const record = (serial: string): AuditRecord => ({
  method: 'signCertificate',
  issuer: 'default',
  serial,
  names: ['dns:www.example.org'],
  sha256: 'ab'.repeat(32),
  requester: 'order 1',
})

const fail = (error: Error) => () => {
  throw error
}

async function all<T>(values: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = []
  for await (const value of values) found.push(value)
  return found
}

describe('the audit chain', () => {
  let folder: string
  let file: string
  beforeEach(() => {
    folder = temporaryFolder()
    file = path.join(folder, 'audit.jsonl')
  })

  const open = (maxBytes = 1e9) => openAuditChain({ path: file, maxBytes })
  async function verified() {
    const verdict = await verifyAuditChain(file)
    assert.ok(verdict.ok, JSON.stringify(verdict))
    return verdict
  }
  const linesOf = () => readFileSync(file, 'utf8').trimEnd().split('\n')
  async function write(count: number, maxBytes?: number): Promise<void> {
    const { chain } = await open(maxBytes)
    for (let n = 0; n < count; n++) await chain.append(record(`0${n}`))
    await chain.close()
  }

  test('holds one line per record, numbered, each with the hash of the one before', async () => {
    await write(3)
    const lines = linesOf().map((text) => JSON.parse(text) as AuditLine)
    assert.deepEqual(each(lines, 'seq'), [1, 2, 3])
    assert.equal(lines[0]!.previous, NO_PREVIOUS)
    assert.deepEqual({ ...record('02'), seq: 3, time: lines[2]!.time, previous: lines[2]!.previous }, lines[2])
    assert.equal((await verified()).signatures, 3)
  })

  test('syncs 200 concurrent records in a few groups, and has each on disk before it says so', async () => {
    const { chain } = await open()
    const onDisk: boolean[] = []
    await Promise.all(
      Array.from({ length: 200 }, async (_, n) => {
        await chain.append(record(`serial-${n}.`))
        onDisk.push(readFileSync(file, 'utf8').includes(`serial-${n}.`))
      }),
    )
    assert.equal(onDisk.filter(Boolean).length, 200)
    assert.ok(chain.syncs <= 5, `${chain.syncs} syncs`)
    await chain.close()
    await verified()
  })

  test('a group never exceeds its limit, however much is waiting', async () => {
    const { chain } = await open()
    await Promise.all(Array.from({ length: 2000 }, () => chain.append(record('00'))))
    assert.ok(chain.syncs >= 4, `${chain.syncs} syncs`)
    await chain.close()
  })

  for (const [what, damage] of [
    ['half a line', Buffer.from('{"seq":4,"time":"2026-')],
    ['a line of zeros, as a loss of power can leave', Buffer.alloc(700)],
    [
      'zeros and then whole lines of the same group',
      Buffer.concat([Buffer.alloc(100), Buffer.from('\n{"seq":5,"previous":"x"}\n')]),
    ],
  ] as const)
    test(`keeps ${what} at the end aside, records it and continues`, async () => {
      await write(3)
      appendFileSync(file, damage)
      const { chain, keptAside } = await open()
      assert.equal(keptAside, `${file}.torn-4`)
      assert.deepEqual(readFileSync(keptAside), damage)
      await chain.append(record('04'))
      await chain.close()
      const verdict = await verified()
      assert.deepEqual([verdict.lines, verdict.signatures, verdict.repairs], [5, 4, 1])
      assert.equal((JSON.parse(linesOf()[3]!) as AuditLine).method, 'auditRepair')
    })

  test('a crash while a repair is recorded costs none of the bytes kept aside', async () => {
    await write(3)
    appendFileSync(file, 'first damage')
    writeFileSync(`${file}.torn-4`, 'of a repair whose line was torn as well')
    const { chain, keptAside } = await open()
    await chain.close()
    assert.equal(keptAside, `${file}.torn-4.2`)
    assert.equal(readFileSync(keptAside, 'utf8'), 'first damage')
    assert.match(readFileSync(`${file}.torn-4`, 'utf8'), /^of a repair/)
    assert.equal((JSON.parse(linesOf()[3]!) as AuditLine).requester, 'audit.jsonl.torn-4.2')
  })

  test('a symbolic link in the place of the bytes kept aside is not followed', async () => {
    await write(3)
    appendFileSync(file, 'damage')
    const other = path.join(folder, 'other')
    writeFileSync(other, 'precious')
    symlinkSync(other, `${file}.torn-4`)
    const { chain } = await open()
    await chain.close()
    assert.equal(readFileSync(other, 'utf8'), 'precious')
  })

  test('a chain whose only line is torn starts anew', async () => {
    writeFileSync(file, '{"seq":1')
    await write(1)
    const verdict = await verified()
    assert.deepEqual([verdict.lines, verdict.repairs], [2, 1])
  })

  test('opens a long chain by its end', async () => {
    const { chain } = await open()
    await Promise.all(Array.from({ length: 3000 }, () => chain.append(record('00'))))
    await chain.close()
    await write(1)
    assert.equal((await verified()).lines, 3001)
  })

  test('does not start on lines that do not link', async () => {
    await write(3)
    writeFileSync(
      file,
      linesOf()
        .with(1, linesOf()[1]!.replace('"01"', '"99"'))
        .map((line) => `${line}\n`)
        .join(''),
    )
    await assert.rejects(open(), /does not follow/)
  })

  test('does not take more than a group for the damage of a crash', async () => {
    await write(1)
    appendFileSync(file, Buffer.alloc(300_000))
    await assert.rejects(open(), /too long to be the damage/)
    assert.deepEqual(readdirSync(folder), ['audit.jsonl'])
  })

  test('stops for good when somebody else writes to the file', async () => {
    const { chain } = await open()
    await chain.append(record('01'))
    appendFileSync(file, 'x')
    await assert.rejects(chain.append(record('02')), SignerUnavailable)
    truncateSync(file, readFileSync(file).length - 1)
    await assert.rejects(chain.append(record('03')), SignerUnavailable)
    assert.match(chain.failure!.message, /somebody else/)
    await chain.close()
    assert.equal(linesOf().length, 1)
  })

  for (const [what, change] of [
    ['removed', (name: string) => rmSync(name)],
    ['moved away', (name: string) => renameSync(name, `${name}.1`)],
    [
      'moved away and made anew',
      (name: string) => {
        renameSync(name, `${name}.1`)
        writeFileSync(name, '')
      },
    ],
  ] as const)
    test(`stops when the file was ${what}: no line goes where nobody finds it`, async () => {
      const { chain } = await open()
      await chain.append(record('01'))
      change(file)
      await assert.rejects(chain.append(record('02')), SignerUnavailable)
      assert.match(chain.failure!.message, /moved or removed/)
      await chain.close()
    })

  test('stops when the disk is full, and fails everybody who waits', {
    skip: process.platform !== 'linux',
  }, async () => {
    const { chain } = await openAuditChain({ path: '/dev/full', maxBytes: 1e9 })
    const outcomes = await Promise.allSettled(Array.from({ length: 40 }, () => chain.append(record('01'))))
    assert.ok(outcomes.every(({ status }) => status === 'rejected'))
    assert.match(chain.failure!.message, /ENOSPC/)
    await chain.close()
  })

  for (const [what, call, octets] of [
    ['a group was written in part', 'write', 100],
    ['nothing of a group was written', 'write', 0],
    ['the next file could not be begun', 'openSync', 0],
  ] as const) {
    test(`goes on by itself when ${what} and there is room again, without a line of what was not given out`, async (context) => {
      const events: string[] = []
      const { chain } = await openAuditChain(
        { path: file, maxBytes: call === 'openSync' ? 100 : 1e9 },
        {
          stopped: (_, untilThereIsRoom) => events.push(`stopped, waits for room: ${untilThereIsRoom}`),
          resumed: () => events.push('resumed'),
        },
      )
      if (call === 'write') await chain.append(record('01'))
      const before = readFileSync(file)
      await withFs(context, call, call === 'write' ? filling(octets) : fail(noRoom()), async () => {
        // The line before a file is closed is on disk: only those after it fail.
        if (call === 'openSync') await chain.append(record('01'))
        const outcomes = await Promise.allSettled([chain.append(record('02')), chain.append(record('03'))])
        assert.ok(outcomes.every(({ status }) => status === 'rejected'))
        assert.deepEqual(events, ['stopped, waits for room: true'])
        assert.match(chain.failure!.message, /ENOSPC/)
        if (call === 'write') assert.deepEqual(readFileSync(file), before)
      })
      while (chain.failure) await sleep(20)
      assert.equal(events.at(-1), 'resumed')
      await chain.append(record('04'))
      await chain.append(record('05'))
      await chain.close()
      const verdict = await verified()
      assert.deepEqual([verdict.lines, verdict.repairs], [3, 0])
      const found = readdirSync(folder).filter((name) => name.endsWith('.room'))
      assert.deepEqual(found, [])
    })
  }

  test('stops when its folder cannot be looked into, and fails who waits', async () => {
    const { chain } = await open()
    await chain.append(record('01'))
    renameSync(folder, `${folder}-aside`)
    symlinkSync(folder, folder)
    try {
      const outcomes = await Promise.allSettled([chain.append(record('02')), chain.append(record('03'))])
      assert.ok(outcomes.every(({ status }) => status === 'rejected'))
      assert.match(chain.failure!.message, /ELOOP/)
      await chain.close()
    } finally {
      rmSync(folder)
      renameSync(`${folder}-aside`, folder)
    }
  })

  test('refuses records after close', async () => {
    const { chain } = await open()
    await chain.close()
    await assert.rejects(chain.append(record('01')), SignerUnavailable)
  })

  for (const [what, change, line] of [
    ['a changed line', (lines: string[]) => lines.with(1, lines[1]!.replace('order 1', 'order 2')), 3],
    ['a removed line', (lines: string[]) => lines.toSpliced(1, 1), 2],
    ['an inserted line', (lines: string[]) => lines.toSpliced(1, 0, lines[0]!), 2],
    ['exchanged lines', (lines: string[]) => [lines[1]!, lines[0]!, ...lines.slice(2)], 2],
    ['something else than JSON', (lines: string[]) => [...lines, 'hello'], 6],
  ] as const)
    test(`audit verify finds ${what}`, async () => {
      await write(5)
      writeFileSync(file, change(linesOf()).join('\n'))
      const verdict = await verifyAuditChain(file)
      assert.ok(!verdict.ok)
      assert.equal(verdict.line, line)
    })

  describe('grown to its limit', () => {
    const MAX = 2_000
    const writeRotating = (count: number) => write(count, MAX)

    test('goes on in a new file, and the files together are one chain', async () => {
      await writeRotating(30)
      const segments = closedSegments(file)
      assert.ok(segments.length >= 4, `${segments.length} segments`)
      assert.equal(segments[0]?.first, 1)
      for (const [i, { last }] of segments.slice(0, -1).entries()) assert.equal(segments[i + 1]?.first, last + 1)
      for (const segment of segments) assert.ok(statSync(segment.file).size < MAX + 500)
      const verdict = await verified()
      assert.deepEqual([verdict.lines, verdict.first], [30, 1])
    })

    test('goes on from the newest segment when a crash came between the two files', async () => {
      await writeRotating(30)
      const bytes = readFileSync(file)
      const lines = bytes.toString().split('\n').length - 1
      rmSync(file)
      await writeRotating(3)
      assert.equal((await verified()).lines, 30 - lines + 3)
    })

    test('verifies without the oldest segments, and says where it begins', async () => {
      await writeRotating(30)
      const [oldest] = closedSegments(file)
      rmSync(oldest!.file)
      assert.equal((await verified()).first, oldest!.last + 1)
      await writeRotating(2)
      await verified()
    })

    test('does not verify without a segment in the middle', async () => {
      await writeRotating(30)
      const [, second] = closedSegments(file)
      rmSync(second!.file)
      const verdict = await verifyAuditChain(file)
      assert.ok(!verdict.ok)
      assert.match(verdict.reason, /sequence number/)
    })

    test('refuses to start behind a segment that was cut', async () => {
      await writeRotating(30)
      const newest = closedSegments(file).at(-1)!
      truncateSync(newest.file, statSync(newest.file).size - 1)
      await assert.rejects(open(MAX), /does not end with line \d+; see audit verify/)
    })

    test('loses none of many concurrent records', async () => {
      const { chain } = await open(MAX)
      await Promise.all(Array.from({ length: 300 }, (_, n) => chain.append(record(`0${n}`))))
      await chain.close()
      assert.equal((await verified()).lines, 300)
    })

    for (const [what, name] of [
      ['the new file cannot be made', 'openSync'],
      ['the old file cannot be closed', 'closeSync'],
    ] as const)
      test(`stops when ${what}: says why, gives nothing out, and the next start goes on`, async (context) => {
        const stops: Error[] = []
        const { chain } = await openAuditChain({ path: file, maxBytes: 100 }, { stopped: (error) => stops.push(error) })
        const close = fs.closeSync
        const stand = (fd: number) => {
          if (name === 'closeSync') close(fd)
          throw noRoom()
        }
        await withFs(context, name, stand, async () => {
          await chain.append(record('01'))
          for (const serial of ['02', '03'])
            await assert.rejects(chain.append(record(serial)), (error: Error) => {
              assert.ok(error instanceof SignerUnavailable)
              // An old file that cannot be closed is no want of room that passes.
              const isOpen = name === 'openSync'
              assert.match(
                error.message,
                isOpen ? /^audit chain stopped until .*: ENOSPC/ : /^audit chain stopped: ENOSPC/,
              )
              return true
            })
          assert.equal(stops.length, 1)
          assert.equal(stops[0], chain.failure)
          await chain.close()
        })
        await writeRotating(3)
        assert.equal((await verified()).lines, 4)
      })

    test('fails those who wait while the new file cannot be made', async (context) => {
      const { chain } = await open(100)
      const tooMany = Object.assign(new Error('EMFILE: too many open files'), { code: 'EMFILE' })
      await withFs(context, 'openSync', fail(tooMany), async () => {
        // More than a group takes: the first gets its lines, the others wait for the file that does not come.
        const appended = Array.from({ length: 1_000 }, () => chain.append(record('01')))
        const outcomes = await Promise.allSettled(appended)
        const lost = outcomes.filter((outcome) => outcome.status === 'rejected')
        assert.ok(lost.length > 0 && lost.length < 1_000, `${lost.length} lost`)
        for (const { reason } of lost) assert.match(reason.cause.message, /EMFILE/)
        await chain.close()
      })
    })

    test('is exported whole or by what was asked for, as lines and as CSV', async () => {
      await writeRotating(30)
      const everything = { since: undefined, until: undefined, issuer: undefined, serial: undefined }
      const lines = await all(exportAudit(file, everything, 'jsonl'))
      assert.equal(lines.length, 30)
      const one = await all(exportAudit(file, { ...everything, serial: '017' }, 'csv'))
      assert.equal(one.length, 2)
      assert.match(one[1]!, /^18,[^,]+,signCertificate,default,017,dns:www\.example\.org,/)
      assert.deepEqual(await all(exportAudit(file, { ...everything, issuer: 'other' }, 'jsonl')), [])
      assert.deepEqual(await all(exportAudit(file, { ...everything, since: new Date(Date.now() + 1e6) }, 'jsonl')), [])
    })

    test('a file that is closed while the ones before it are read is read, too', async () => {
      const closeTo = (first: number, last: number) => renameSync(file, segmentName(file, first, last))
      writeFileSync(file, 'one\ntwo\n')
      closeTo(1, 2)
      writeFileSync(file, 'three\n')
      const read: string[] = []
      for await (const { text } of auditLines(file)) {
        if (read.length === 0) {
          closeTo(3, 3)
          writeFileSync(file, 'four\n')
        }
        read.push(text)
      }
      assert.deepEqual(read, ['one', 'two', 'three'])
    })

    test('is followed across files', async () => {
      await writeRotating(5)
      const numbers = (await lastLines(file, 2)).map(({ seq }) => seq)
      assert.deepEqual(numbers, [4, 5])
      const interrupt = new AbortController()
      const seen: number[] = []
      const following = (async () => {
        for await (const { seq } of followLines(file, 5, interrupt.signal)) {
          seen.push(seq)
          if (seq === 25) interrupt.abort()
        }
      })()
      await writeRotating(20)
      await following
      assert.deepEqual(
        seen,
        Array.from({ length: 20 }, (_, n) => n + 6),
      )
    })
  })
})

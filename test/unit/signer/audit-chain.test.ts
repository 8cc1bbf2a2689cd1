import assert from 'node:assert/strict'
import { appendFileSync, mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, describe, test } from 'node:test'
import { type AuditLine, type AuditRecord, NO_PREVIOUS, openAuditChain } from '../../../signer/audit-chain.ts'
import { verifyAuditChain } from '../../../signer/audit-verify.ts'
import { SignerUnavailable } from '../../../signer/protocol.ts'

const record = (serial: string): AuditRecord => ({
  method: 'signCertificate',
  issuer: 'default',
  serial,
  names: ['dns:www.example.org'],
  sha256: 'ab'.repeat(32),
  requester: 'order 1',
})

describe('the audit chain', () => {
  let folder: string
  let file: string
  beforeEach(() => {
    folder = mkdtempSync(path.join(tmpdir(), 'audit-'))
    file = path.join(folder, 'audit.jsonl')
  })
  afterEach(() => rmSync(folder, { recursive: true }))

  const linesOf = () => readFileSync(file, 'utf8').trimEnd().split('\n')
  async function write(count: number): Promise<void> {
    const { chain } = await openAuditChain(file)
    for (let n = 0; n < count; n++) await chain.append(record(`0${n}`))
    await chain.close()
  }

  test('holds one line per record, numbered, each with the hash of the one before', async () => {
    await write(3)
    const lines = linesOf().map((text) => JSON.parse(text) as AuditLine)
    assert.deepEqual(
      lines.map(({ seq }) => seq),
      [1, 2, 3],
    )
    assert.equal(lines[0]!.previous, NO_PREVIOUS)
    assert.deepEqual({ ...record('02'), seq: 3, time: lines[2]!.time, previous: lines[2]!.previous }, lines[2])
    const verdict = await verifyAuditChain(file)
    assert.ok(verdict.ok)
    assert.equal(verdict.signatures, 3)
  })

  test('continues after it was closed and opened again', async () => {
    await write(2)
    await write(2)
    const verdict = await verifyAuditChain(file)
    assert.ok(verdict.ok)
    assert.equal(verdict.lines, 4)
  })

  test('syncs 200 concurrent records in a few groups, and has each on disk before it says so', async () => {
    const { chain } = await openAuditChain(file)
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
    assert.equal((await verifyAuditChain(file)).ok, true)
  })

  test('a group never exceeds its limit, however much is waiting', async () => {
    const { chain } = await openAuditChain(file)
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
  ] as const) {
    test(`keeps ${what} at the end aside, records it and continues`, async () => {
      await write(3)
      appendFileSync(file, damage)
      const { chain, keptAside } = await openAuditChain(file)
      assert.equal(keptAside, `${file}.torn-4`)
      assert.deepEqual(readFileSync(keptAside), damage)
      await chain.append(record('04'))
      await chain.close()
      const verdict = await verifyAuditChain(file)
      assert.deepEqual(verdict.ok && [verdict.lines, verdict.signatures, verdict.repairs], [5, 4, 1])
      assert.equal((JSON.parse(linesOf()[3]!) as AuditLine).method, 'auditRepair')
    })
  }

  test('a chain whose only line is torn starts anew', async () => {
    writeFileSync(file, '{"seq":1')
    await write(1)
    const verdict = await verifyAuditChain(file)
    assert.ok(verdict.ok)
    assert.deepEqual([verdict.lines, verdict.repairs], [2, 1])
  })

  test('opens a long chain by its end', async () => {
    const { chain } = await openAuditChain(file)
    await Promise.all(Array.from({ length: 3000 }, () => chain.append(record('00'))))
    await chain.close()
    await write(1)
    const verdict = await verifyAuditChain(file)
    assert.ok(verdict.ok)
    assert.equal(verdict.lines, 3001)
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
    await assert.rejects(openAuditChain(file), /does not follow/)
  })

  test('does not take more than a group for the damage of a crash', async () => {
    await write(1)
    appendFileSync(file, Buffer.alloc(300_000))
    await assert.rejects(openAuditChain(file), /too long to be the damage/)
    assert.deepEqual(readdirSync(folder), ['audit.jsonl'])
  })

  test('stops for good when somebody else writes to the file', async () => {
    const { chain } = await openAuditChain(file)
    await chain.append(record('01'))
    appendFileSync(file, 'x')
    await assert.rejects(chain.append(record('02')), SignerUnavailable)
    truncateSync(file, readFileSync(file).length - 1)
    await assert.rejects(chain.append(record('03')), SignerUnavailable)
    assert.match(chain.failure!.message, /somebody else/)
    await chain.close()
    assert.equal(linesOf().length, 1)
  })

  test('stops when the disk is full, and fails everybody who waits', {
    skip: process.platform !== 'linux',
  }, async () => {
    const { chain } = await openAuditChain('/dev/full')
    const outcomes = await Promise.allSettled(Array.from({ length: 40 }, () => chain.append(record('01'))))
    assert.ok(outcomes.every(({ status }) => status === 'rejected'))
    assert.match(chain.failure!.message, /ENOSPC/)
    await chain.close()
  })

  test('refuses records after close', async () => {
    const { chain } = await openAuditChain(file)
    await chain.close()
    await assert.rejects(chain.append(record('01')), SignerUnavailable)
  })

  for (const [what, change, line] of [
    ['a changed line', (lines: string[]) => lines.with(1, lines[1]!.replace('order 1', 'order 2')), 3],
    ['a removed line', (lines: string[]) => lines.toSpliced(1, 1), 2],
    ['an inserted line', (lines: string[]) => lines.toSpliced(1, 0, lines[0]!), 2],
    ['exchanged lines', (lines: string[]) => [lines[1]!, lines[0]!, ...lines.slice(2)], 1],
    ['something else than JSON', (lines: string[]) => [...lines, 'hello'], 6],
  ] as const) {
    test(`audit verify finds ${what}`, async () => {
      await write(5)
      writeFileSync(file, change(linesOf()).join('\n'))
      const verdict = await verifyAuditChain(file)
      assert.ok(!verdict.ok)
      assert.equal(verdict.line, line)
    })
  }
})

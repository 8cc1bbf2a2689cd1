/** What a signer records beside its audit chain, and how a service reads it back page by page. */

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { describe, test } from 'node:test'
import { promisify } from 'node:util'
import { verifyAuditChain } from '../../signer/audit/audit-commands.ts'
import { CRL_PIECE_BYTES, LINES_PAGE_BYTES, MAX_DECISION_BYTES, MAX_DECISIONS } from '../../signer/protocol/methods.ts'
import { readDecisionLines } from '../../signer/protocol/record-lines.ts'
import type { CertificateLine, RevocationLine } from '../../signer/records/record.ts'
import type { SignerClient } from '../../src/ca/signer-client.ts'
import { signerRecords } from '../../src/ca/signer-records.ts'
import { parseCertificate, serialNumberHex } from '../../src/shared/pki/certificate.ts'
import { encodeDer } from '../../src/shared/pki/der-writer.ts'
import { writeDistributionPointName } from '../../src/shared/pki/extensions.ts'
import { CRL_EXTENSION } from '../../src/shared/pki/oids.ts'
import { decodePem, encodePem } from '../../src/shared/pki/pem.ts'
import { leafTbs, makeAuthority } from './authority.ts'
import { SIGNER_PROGRAM, type TestSigner, withSigner as withSignerFiles } from './daemon.ts'
import { rawExtension } from './raw-tbs.ts'
import { now, type RawListChanges, rawEntry, rawTbsList, reasonCode } from './raw-tbs-list.ts'

const run = promisify(execFile)
const timeoutMs = 60_000
const authority = makeAuthority()

/** Runs `work` with a daemon; `restart` ends it with a signal and starts another one. */
const withSigner = (
  work: (signer: TestSigner, restart: (signal: NodeJS.Signals) => Promise<void>) => Promise<void>,
): Promise<void> =>
  withSignerFiles(
    async (signer) => {
      await signer.launch()
      await work(signer, (signal) => signer.restart(signal))
    },
    { default: authority },
  )

async function sign(client: SignerClient, count: number, requester = 'order 1'): Promise<Buffer[]> {
  const requests = Array.from({ length: count }, () => leafTbs(authority))
  await Promise.all(
    requests.map((payload) => client.call('signCertificate', { issuer: 'default', requester }, { timeoutMs, payload })),
  )
  return requests
}

const state = async (client: SignerClient) => (await client.call('recordState', {}, { timeoutMs })).meta

/** Pages through all that is recorded; sequence number → serial number. */
async function serials(client: SignerClient, after = 0): Promise<Map<number, string>> {
  const found = new Map<number, string>()
  for (let more = true; more; ) {
    const page = await client.call('signedSerials', { after }, { timeoutMs })
    for (let at = 0; at < page.payload.length; ) {
      const end = at + 11 + page.payload[at + 10]!
      found.set(page.payload.readUIntBE(at, 6), page.payload.toString('hex', at + 11, end))
      at = end
    }
    ;({ last: after, more } = page.meta)
  }
  return found
}

async function certificates(client: SignerClient, sequences: number[]): Promise<CertificateLine[]> {
  const { payload } = await client.call('signedCertificates', { sequences }, { timeoutMs })
  return linesOf<CertificateLine>(payload)
}

/** Pages through all revocations that are recorded. */
async function revocations(client: SignerClient): Promise<RevocationLine[]> {
  const found: RevocationLine[] = []
  let after = { seq: 0, part: 0 }
  for (let more = true; more; ) {
    const page = await client.call('signedRevocations', { after }, { timeoutMs })
    assert.ok(page.payload.length <= LINES_PAGE_BYTES)
    found.push(...linesOf<RevocationLine>(page.payload))
    ;({ last: after, more } = page.meta)
  }
  return found
}

/** The issuingDistributionPoint of a part of a list; none for a complete one. */
function pointOf(urls: readonly string[]): RawListChanges['extensions'] & {} {
  if (urls.length === 0) return {}
  const value = encodeDer((writer) => writer.sequence(() => writeDistributionPointName(writer, urls)))
  return { idp: rawExtension(CRL_EXTENSION.issuingDistributionPoint, true, value) }
}

const linesOf = <T>(payload: Buffer): T[] =>
  payload
    .toString()
    .split('\n')
    .filter((text) => text !== '')
    .map((text) => JSON.parse(text) as T)

describe('the records of a signer', () => {
  test('give back every certificate whole, with its requester, after kill -9, too', () =>
    withSigner(async ({ client, files }, restart) => {
      const before = await state(client)
      assert.deepEqual(
        [before.certificates, before.revocations],
        [
          { first: 0, last: 0 },
          { first: 0, last: 0 },
        ],
      )
      await client.call('testSign', { issuer: 'default', requester: 'test' }, { timeoutMs })
      const signed = await sign(client, 100, 'order 7 account 8 certificate 9')
      await restart('SIGKILL')

      const after = await state(client)
      assert.equal(after.chain, before.chain)
      assert.deepEqual(after.certificates, { first: 2, last: 101 })
      const found = await serials(client)
      assert.deepEqual(
        [...found.keys()],
        Array.from({ length: 100 }, (_, at) => at + 2),
      )
      const lines = [
        ...(await certificates(client, [...found.keys()].slice(0, 64))),
        ...(await certificates(client, [...found.keys()].slice(64))),
      ]
      const recorded = lines.map(({ certificate }) => parseCertificate(Buffer.from(certificate, 'base64')).tbsDer)
      assert.deepEqual(new Set(recorded.map(String)), new Set(signed.map(String)))
      for (const { seq, serial, issuer, requester } of lines)
        assert.deepEqual([found.get(seq), issuer, requester], [serial, 'default', 'order 7 account 8 certificate 9'])
      assert.equal((await verifyAuditChain(files.auditFile)).ok, true)
    }))

  test('are printed as PEM, and audit verify compares them with the chain', () =>
    withSigner(async ({ client, files }) => {
      const requests = await sign(client, 3)
      const program = async (...args: string[]) =>
        (await run(process.execPath, [SIGNER_PROGRAM, 'audit', ...args, files.auditFile])).stdout
      const printed = decodePem(await program('export', '--format', 'pem')).map(({ der }) => parseCertificate(der))
      assert.deepEqual(new Set(printed.map(({ tbsDer }) => String(tbsDer))), new Set(requests.map(String)))
      const { tbs, der } = printed[1]!
      const one = await program('export', '--format', 'pem', '--serial', serialNumberHex(tbs.serialNumber))
      assert.equal(one, encodePem('CERTIFICATE', der))
      assert.match(await program('verify'), /3 signatures\n3 records agree with their lines\nhead /)
    }))

  test('come in pages that are whole and bounded', () =>
    withSigner(async ({ client }) => {
      await sign(client, 300)
      const found = await serials(client, 100)
      assert.deepEqual(
        [...found.keys()],
        Array.from({ length: 200 }, (_, at) => at + 101),
      )
      const none = await client.call('signedSerials', { after: 300 }, { timeoutMs })
      assert.deepEqual([none.meta, none.payload.length], [{ last: 300, more: false }, 0])
      assert.deepEqual(await certificates(client, [301, 5000]), [])
      await assert.rejects(
        certificates(
          client,
          Array.from({ length: 65 }, (_, at) => at + 1),
        ),
        /at most 64/,
      )
    }))

  test('hold a revocation before the answer to its note', () =>
    withSigner(async ({ client, files }, restart) => {
      const note = (entries: unknown) =>
        client.call(
          'noteRevocations',
          { issuer: 'default', requester: 'revocation' },
          { timeoutMs, payload: Buffer.from(JSON.stringify(entries)) },
        )
      const entries = [
        ['40ab', 1_790_000_000, 1],
        ['40cd', 1_790_000_001, 0],
      ]
      await note(entries)
      await restart('SIGKILL')
      const { payload, meta } = await client.call('signedRevocations', { after: { seq: 0, part: 0 } }, { timeoutMs })
      const [line] = linesOf<RevocationLine>(payload)
      assert.deepEqual([line?.seq, line?.part, line?.issuer, line?.entries], [1, 0, 'default', entries])
      assert.deepEqual(meta, { last: { seq: 1, part: 0 }, more: false })
      const inChain = JSON.parse(readFileSync(files.auditFile, 'utf8')) as Record<string, unknown>
      assert.deepEqual([inChain['method'], inChain['names']], ['noteRevocations', ['entries:2']])
      for (const wrong of [[], [['40', 1, 99]], [['x', 1, 1]], {}, Array.from({ length: 501 }, () => entries[0])])
        await assert.rejects(note(wrong), { name: 'SignerRefusal' })
    }))

  test('hold decisions as they were told, before the answer', () =>
    withSigner(async ({ client, files }, restart) => {
      const note = (payload: Buffer) => client.call('noteDecisions', { requester: 'decisions' }, { timeoutMs, payload })
      const told = [{ act: 'signing.stop', by: 'Jörg' }, { act: 'key.block' }]
      const payload = Buffer.from(JSON.stringify(told))
      await note(payload)
      await restart('SIGKILL')
      const page = await client.call('signedDecisions', { after: { seq: 0, part: 0 } }, { timeoutMs })
      const lines = readDecisionLines(page.payload)
      assert.deepEqual(lines, [{ seq: 1, decisions: told }])
      assert.deepEqual(page.meta, { first: 1, last: { seq: 1, part: 0 }, more: false })
      const inChain = JSON.parse(readFileSync(files.auditFile, 'utf8')) as Record<string, unknown>
      assert.deepEqual(
        [inChain['method'], inChain['names'], inChain['requester'], inChain['sha256']],
        ['noteDecisions', ['decisions:2'], 'decisions', createHash('sha256').update(payload).digest('hex')],
      )
    }))

  test('take decisions that are a bounded list of objects, and nothing else', () =>
    withSigner(async ({ client }) => {
      const note = (payload: string) =>
        client.call('noteDecisions', { requester: 'decisions' }, { timeoutMs, payload: Buffer.from(payload) })
      const most = JSON.stringify([{ reason: 'x'.repeat(MAX_DECISION_BYTES - 15) }])
      for (const wrong of [
        '',
        '{}',
        '[]',
        '[1]',
        '[[]]',
        JSON.stringify(Array(MAX_DECISIONS + 1).fill({})),
        `${most} `,
      ])
        await assert.rejects(note(wrong), { name: 'SignerRefusal' }, wrong.slice(0, 20))
      // As deep as no value is that the service makes: it may be refused in any way, and costs nothing else.
      const depth = MAX_DECISION_BYTES / 2 - 8
      await assert.rejects(note(`[{"a":${'['.repeat(depth)}${']'.repeat(depth)}}]`))
      assert.equal(Buffer.byteLength(most), MAX_DECISION_BYTES)
      await note(most)
      await note(JSON.stringify(Array(MAX_DECISIONS).fill({})))
    }))

  test('come in pages of whole lines of decisions, as long as they may be', () =>
    withSigner(async ({ client }) => {
      // In the file each of these letters has three times its octets.
      const payload = Buffer.from(JSON.stringify([{ reason: 'ö'.repeat(MAX_DECISION_BYTES / 2 - 10) }]))
      for (let n = 0; n < 4; n++) await client.call('noteDecisions', { requester: 'decisions' }, { timeoutMs, payload })
      const records = signerRecords(client)
      const seen: number[] = []
      let pages = 0
      let after = { seq: 0, part: 0 }
      for (let more = true; more; pages++) {
        const page = await records.decisions(after)
        assert.ok(page)
        seen.push(...page.lines.map(({ sequence }) => sequence))
        ;({ last: after, more } = page)
      }
      assert.deepEqual([seen, pages], [[1, 2, 3, 4], 4])
    }))

  test('say how many of them are damaged, and the log says it once', () =>
    withSigner(async ({ client, files, daemon }) => {
      const note = (n: number) =>
        client.call('noteDecisions', { requester: 'decisions' }, { timeoutMs, payload: Buffer.from(`[{"n":${n}}]`) })
      await sign(client, 2)
      await note(10)
      await note(11)
      const file = `${files.auditFile}.decisions`
      writeFileSync(file, readFileSync(file, 'utf8').replace('"n":10', '"n":70'))
      const records = signerRecords(client)
      const none = { lines: 0, first: 0 }
      for (let n = 0; n < 2; n++)
        assert.deepEqual(await records.damage(), {
          certificates: none,
          revocations: none,
          decisions: { lines: 1, first: 3 },
        })
      const line = /.*record files are damaged.*/g
      await daemon.wrote(line)
      assert.deepEqual(
        daemon
          .output()
          .match(line)
          ?.map((text) => JSON.parse(text).stream),
        ['decisions'],
      )
      const page = await records.decisions({ seq: 0, part: 0 })
      assert.deepEqual(page?.lines, [{ sequence: 4, decisions: [{ n: 11 }] }])
    }))

  test('hold a revocation whose time has not come, or cannot be, as of the clock of the signer', () =>
    withSigner(async ({ client }) => {
      const before = Math.floor(Date.now() / 1000)
      const soon = before + 60
      const entries = [
        ['40ab', Number.MAX_SAFE_INTEGER, 1],
        ['40cd', before + 400 * 86_400, 1],
        ['40ef', soon, 1],
      ]
      const payload = Buffer.from(JSON.stringify(entries))
      await client.call('noteRevocations', { issuer: 'default', requester: 'revocation' }, { timeoutMs, payload })
      const page = await client.call('signedRevocations', { after: { seq: 0, part: 0 } }, { timeoutMs })
      const [line] = linesOf<RevocationLine>(page.payload)
      const [impossible, ahead, near] = line!.entries.map(([, seconds]) => seconds)
      assert.ok([impossible, ahead].every((seconds) => seconds! >= before && seconds! <= Date.now() / 1000))
      assert.equal(near, soon)
    }))

  test('answer a repeated request with the signature that there is, after kill -9, too', () =>
    withSigner(async ({ client, files }, restart) => {
      const payload = leafTbs(authority)
      const params = { issuer: 'default', requester: 'order 1' }
      const signature = async () => (await client.call('signCertificate', params, { timeoutMs, payload })).payload
      const [first, ...others] = await Promise.all([1, 2, 3].map(signature))
      await restart('SIGKILL')
      for (const other of [...others, await signature()]) assert.deepEqual(other, first)
      const verdict = await verifyAuditChain(files.auditFile)
      assert.deepEqual(verdict.ok && verdict.signatures, 1)
    }))

  test('hold what each list adds, in parts, and the newest number of each list', () =>
    withSigner(async ({ client, files }, restart) => {
      const entries = (from: number, count: number, reason = 1) =>
        Array.from({ length: count }, (_, at) => {
          const serial = Buffer.alloc(16, 0x41)
          serial.writeUInt32BE(from + at, 8)
          return rawEntry({ serial, revokedAt, extensions: reason === 0 ? [] : [reasonCode(reason)] })
        })
      const revokedAt = now(-3_600_000)
      const signList = async (number: bigint, listed: Buffer[], urls: string[] = []) => {
        const tbs = rawTbsList(authority, { number, entries: Buffer.concat(listed), extensions: pointOf(urls) })
        const begin = { issuer: 'default', requester: 'crl', bytes: tbs.length }
        const { upload } = (await client.call('beginCrl', begin, { timeoutMs })).meta
        for (let offset = 0; offset < tbs.length; offset += CRL_PIECE_BYTES) {
          const payload = tbs.subarray(offset, offset + CRL_PIECE_BYTES)
          await client.call('appendCrl', { upload, offset }, { timeoutMs, payload })
        }
        await client.call('signCrl', { upload }, { timeoutMs })
      }
      const newest = async () => JSON.parse(String((await client.call('recordState', {}, { timeoutMs })).payload))

      // 6,000 entries: 5,000 go ahead in ten parts, 1,000 come in two with the list.
      await signList(5n, entries(0, 6000))
      const first = await revocations(client)
      assert.deepEqual(
        first.map(({ seq, part, list, entries: { length } }) => [seq, part, list?.number, length]),
        [...Array.from({ length: 10 }, (_, part) => [1, part, undefined, 500]), [2, 0, '5', 500], [2, 1, '5', 500]],
      )
      const [serial, seconds, reason] = first[0]!.entries[0]!
      assert.deepEqual([serial, seconds, reason], ['41414141414141410000000041414141', revokedAt.getTime() / 1000, 1])

      // The next list adds two: one is new, one has another reason. A part of the list adds nothing.
      await signList(6n, [...entries(0, 6000), ...entries(6000, 1, 0)])
      await signList(7n, [...entries(1, 5999), ...entries(0, 1, 4)])
      await signList(8n, entries(10, 20), ['http://crl.example.org/1.crl'])
      const added = (await revocations(client)).slice(first.length)
      assert.deepEqual(
        added.map(({ list, entries }) => [list, entries.map(([, , why]) => why)]),
        [
          [{ number: '6', url: '' }, [0]],
          [{ number: '7', url: '' }, [4]],
          [{ number: '8', url: 'http://crl.example.org/1.crl' }, []],
        ],
      )
      const { nameDer, keyIdentifier } = authority
      const key = createHash('sha256').update(nameDer).update(keyIdentifier).digest('hex')
      assert.equal(first[0]!.key, key)
      const numbers = [
        { key, url: '', number: '7' },
        { key, url: 'http://crl.example.org/1.crl', number: '8' },
      ]
      assert.deepEqual(await newest(), numbers)

      await restart('SIGKILL')
      assert.deepEqual(await newest(), numbers)
      assert.deepEqual((await revocations(client)).length, first.length + 3)
      await signList(9n, entries(0, 600))
      assert.deepEqual(
        (await revocations(client)).slice(-2).map((line) => line.entries.length),
        [500, 100],
      )
      assert.equal((await verifyAuditChain(files.auditFile)).ok, true)
    }))
})

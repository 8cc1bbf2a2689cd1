/** What a signer records beside its audit chain, and how a service reads it back page by page. */

import assert from 'node:assert/strict'
import { readFileSync, rmSync } from 'node:fs'
import { describe, test } from 'node:test'
import { verifyAuditChain } from '../../signer/audit/audit-commands.ts'
import type { CertificateLine, RevocationLine } from '../../signer/records/record.ts'
import { SignerClient } from '../../src/ca/signer-client.ts'
import { parseCertificate } from '../../src/shared/pki/certificate.ts'
import { leafTbs, makeAuthority, type SignerFiles, writeSignerFiles } from './authority.ts'
import { type Daemon, startDaemon } from './daemon.ts'

const timeoutMs = 60_000
const authority = makeAuthority()

interface Running {
  files: SignerFiles
  client: SignerClient
  daemon: Daemon
}

/** Runs `work` with a daemon; `restart` ends it with a signal and starts another one. */
async function withSigner(
  work: (running: Running, restart: (signal: NodeJS.Signals) => Promise<void>) => Promise<void>,
): Promise<void> {
  const files = writeSignerFiles({ default: authority })
  const client = new SignerClient({ socketPath: files.socket, secret: files.secret })
  const running = { files, client, daemon: await startDaemon(files.config) }
  try {
    await work(running, async (signal) => {
      await running.daemon.stop(signal)
      running.daemon = await startDaemon(files.config)
    })
  } finally {
    await client.close()
    await running.daemon.stop()
    rmSync(files.folder, { recursive: true })
  }
}

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
})

/** A running signer and CRLs: numbers that only rise, pieces, what a crash leaves, and certificates meanwhile. */

import assert from 'node:assert/strict'
import { createHash, createPublicKey, randomBytes, verify } from 'node:crypto'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { beforeEach, describe, test } from 'node:test'
import { verifyAuditChain } from '../../signer/audit/audit-commands.ts'
import { CRL_PIECE_BYTES } from '../../signer/protocol/methods.ts'
import { SignerRefusal, SignerUnavailable } from '../../signer/protocol/signer-errors.ts'
import { type CaBackend, CaError } from '../../src/ca/backend.ts'
import { SignerClient } from '../../src/ca/signer-client.ts'
import { SIGNATURE_ALGORITHMS } from '../../src/shared/pki/algorithms.ts'
import { parseCertificate } from '../../src/shared/pki/certificate.ts'
import { encodeCrlEntries } from '../../src/shared/pki/tbs-cert-list.ts'
import { until } from '../support/until.ts'
import { type Authority, type AuthorityKind, leafTbs, makeAuthority } from './authority.ts'
import { useSigner } from './daemon.ts'
import { now, type RawListChanges, rawTbsList } from './raw-tbs-list.ts'

const KINDS: readonly AuthorityKind[] = ['P-256', 'P-384', 'Ed25519', 'RSA']
const timeoutMs = 60_000
const requester = 'crl test'

describe('CRLs and a running signer', () => {
  const authorities = Object.fromEntries(KINDS.map((kind) => [kind, makeAuthority(kind)])) as Record<string, Authority>
  const signer = useSigner(authorities, { yaml: 'limits: { crl_bytes: 20000000 }\n' })
  let number = 1n
  beforeEach(() => {
    number += 1n
  })

  const listOf = (kind: string, changes: RawListChanges = {}) => rawTbsList(authorities[kind]!, { number, ...changes })

  const signed = (
    kind: string,
    tbs: Buffer,
    algorithm = authorities[kind]!.algorithm,
    by: CaBackend = signer.backend,
  ) =>
    by.signCrl(
      kind,
      { signatureAlgorithm: algorithm, length: tbs.length, pieces: inChunks(tbs, 10_000) },
      { timeoutMs, requester },
    )

  const refusal = async (work: Promise<unknown>): Promise<string> => {
    const error = await work.then(
      () => assert.fail('it was signed'),
      (reason: unknown) => reason,
    )
    assert.ok(error instanceof CaError || error instanceof SignerRefusal, String(error))
    return error.message
  }

  async function begin(tbs: Buffer): Promise<string> {
    const { meta } = await signer.client.call(
      'beginCrl',
      { issuer: 'P-256', requester, bytes: tbs.length },
      { timeoutMs },
    )
    return meta.upload
  }
  const append = (upload: string, offset: number, payload: Buffer) =>
    signer.client.call('appendCrl', { upload, offset }, { timeoutMs, payload })

  for (const kind of KINDS) {
    test(`signs with ${kind}, and the line in the audit chain says what`, async () => {
      const tbs = listOf(kind, { entries: manyEntries(5000) })
      const signature = await signed(kind, tbs)
      const { algorithm, certificate } = authorities[kind]!
      const key = createPublicKey({ key: parseCertificate(certificate).tbs.spki.der, format: 'der', type: 'spki' })
      assert.ok(verify(SIGNATURE_ALGORITHMS[algorithm].hash, tbs, key, signature))
      const line = JSON.parse(readFileSync(signer.files.auditFile, 'utf8').trim().split('\n').at(-1)!)
      assert.deepEqual(
        [line.method, line.issuer, line.serial, line.names, line.sha256, line.requester],
        [
          'signCrl',
          kind,
          number.toString(16),
          ['entries:5000'],
          createHash('sha256').update(tbs).digest('hex'),
          requester,
        ],
      )
      assert.equal((await verifyAuditChain(signer.files.auditFile)).ok, true)
    })
  }

  test('another hash than that of certificates', async () => {
    assert.ok((await signed('RSA', listOf('RSA', { algorithm: 'SHA512withRSA' }), 'SHA512withRSA')).length > 0)
  })

  test('a number is signed once, and a lower one never, whatever stands in the list (RFC 5280 §5.2.3)', async () => {
    number += 10n
    await signed('P-256', listOf('P-256'))
    assert.match(await refusal(signed('P-256', listOf('P-256', { entries: undefined }))), /is not above/)
    assert.match(await refusal(signed('P-256', listOf('P-256', { number: number - 1n }))), /is not above/)
    await signed('P-256', listOf('P-256', { number: number + 1n }))
    number += 1n
    const both = await Promise.allSettled([1, 2].map(() => signed('P-256', listOf('P-256', { number: number + 1n }))))
    assert.deepEqual(both.map(({ status }) => status).sort(), ['fulfilled', 'rejected'])
    number += 1n
  })

  test('a number far above the clock is refused, and uses nothing up: the list after it is signed', async () => {
    for (const far of [2n ** 159n - 1n, BigInt(Math.ceil(Date.now() / 1000)) + 101n * 31_557_600n])
      assert.match(
        await refusal(signed('P-256', listOf('P-256', { entries: undefined, number: far }))),
        /above \d+, the newest one signed or the clock/,
      )
    await signed('P-256', listOf('P-256'))
  })

  test('each key has numbers of its own', async () => {
    await signed('RSA', listOf('RSA', { number: 900n + number }))
    await signed('P-384', listOf('P-384'))
  })

  test('pieces and the last request may be sent again, as after a lost connection', async () => {
    const tbs = listOf('P-256', { entries: manyEntries(4000) })
    const upload = await begin(tbs)
    for (let offset = 0; offset < tbs.length; offset += CRL_PIECE_BYTES) {
      const piece = tbs.subarray(offset, offset + CRL_PIECE_BYTES)
      const received = { received: offset + piece.length }
      assert.deepEqual((await append(upload, offset, piece)).meta, received)
      assert.deepEqual((await append(upload, offset, piece)).meta, received)
    }
    const [first, second] = await Promise.all(
      [1, 2].map(() => signer.client.call('signCrl', { upload }, { timeoutMs })),
    )
    assert.deepEqual(first?.payload, second?.payload)
  })

  test('a piece out of its place, too long, or more than announced ends the upload', async () => {
    const tbs = listOf('P-256', { entries: manyEntries(4000) })
    for (const [offset, piece] of [
      [1, tbs.subarray(1, 100)],
      [0, tbs.subarray(0, CRL_PIECE_BYTES + 1)],
      [0, Buffer.concat([listOf('P-256'), Buffer.alloc(10)])],
    ] as const) {
      const upload = await begin(offset === 0 && piece.length < 1000 ? listOf('P-256') : tbs)
      await assert.rejects(append(upload, offset, piece), SignerRefusal)
      await assert.rejects(append(upload, 0, tbs.subarray(0, 100)), SignerUnavailable)
    }
  })

  test('a list that is not there yet is not signed, and one over the limit is not begun', async () => {
    const upload = await begin(listOf('P-256'))
    await assert.rejects(signer.client.call('signCrl', { upload }, { timeoutMs }), SignerRefusal)
    const bytes = 20_000_001
    await assert.rejects(
      signer.client.call('beginCrl', { issuer: 'P-256', requester, bytes }, { timeoutMs }),
      SignerRefusal,
    )
  })

  test('uploads are few, and random bytes end theirs', async () => {
    const begun = await Promise.allSettled(Array.from({ length: 20 }, () => begin(listOf('P-256'))))
    const ids = begun.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []))
    assert.ok(ids.length > 0 && ids.length <= 8, String(ids.length))
    for (const id of ids) await assert.rejects(append(id, 0, Buffer.concat([Buffer.of(0), randomBytes(40)])))
    await signed('P-256', listOf('P-256'))
  })

  test('uploads end with the connection they came by, so that nobody waits for a client that is gone', async () => {
    const gone = new SignerClient(signer.place)
    const tbs = listOf('P-256')
    for (let n = 0; n < 8; n++)
      await gone.call('beginCrl', { issuer: 'P-256', requester, bytes: tbs.length }, { timeoutMs })
    await assert.rejects(begin(tbs), /too many CRLs/)
    await gone.close()
    const upload = await until('a free upload', () => begin(tbs).catch(() => undefined))
    await assert.rejects(append(upload, 1, Buffer.alloc(1)), SignerRefusal)
    await signed('P-256', tbs)
  })

  test('a list that is signed already is there for a client that lost its connection and asks by another', async () => {
    const first = new SignerClient(signer.place)
    const tbs = listOf('P-256')
    const { meta } = await first.call('beginCrl', { issuer: 'P-256', requester, bytes: tbs.length }, { timeoutMs })
    await first.call('appendCrl', { upload: meta.upload, offset: 0 }, { timeoutMs, payload: tbs })
    const { payload } = await first.call('signCrl', { upload: meta.upload }, { timeoutMs })
    await first.close()
    const again = await signer.client.call('signCrl', { upload: meta.upload }, { timeoutMs })
    assert.deepEqual(again.payload, payload)
  })

  test('certificates are signed while a long list comes in, and never wait for more than a piece of it', async () => {
    const tbs = listOf('P-256', { entries: manyEntries(250_000) })
    let over = false
    let taken = 0
    const pieces = inChunks(tbs, 10_000, () => {
      taken += 1
    })
    const described = { signatureAlgorithm: authorities['P-256']!.algorithm, length: tbs.length, pieces }
    const list = signer.backend.signCrl('P-256', described, { timeoutMs, requester }).finally(() => {
      over = true
    })
    const waits: number[] = []
    while (!over) {
      const takenBefore = taken
      const { meta } = await signer.client.call('testSign', { issuer: 'P-256', requester }, { timeoutMs })
      assert.ok(meta.durationMs >= 0)
      waits.push(taken - takenBefore)
    }
    await list
    waits.sort((a, b) => a - b)
    const [median, longest] = [waits[waits.length >> 1]!, waits.at(-1)!]
    console.log(
      `${tbs.length} bytes; ${waits.length} signatures meanwhile: median ${median}, longest ${longest} of ${taken} pieces`,
    )
    assert.ok(waits.length > 20 && median < taken / 20, `median ${median} of ${taken}, ${waits.length} waits`)
    const der = await signer.backend.signCertificate('P-256', leafTbs(authorities['P-256']!), { timeoutMs, requester })
    assert.ok(der.length > 0)
  })

  test('numbers rise across kill -9 and a new start, in the middle of a list too', async () => {
    await signed('P-256', listOf('P-256'))
    const tbs = listOf('P-256', { number: number + 1n, entries: manyEntries(4000) })
    const upload = await begin(tbs)
    await append(upload, 0, tbs.subarray(0, CRL_PIECE_BYTES))
    await signer.restart('SIGKILL')
    await assert.rejects(append(upload, CRL_PIECE_BYTES, tbs.subarray(CRL_PIECE_BYTES)), SignerUnavailable)
    assert.match(await refusal(signed('P-256', listOf('P-256'))), /is not above/)
    await signed('P-256', tbs)
    number += 1n
  })

  test('a file of numbers that is damaged refuses the start', async () => {
    const numbers = `${signer.files.auditFile}.crl-numbers`
    assert.ok(existsSync(numbers))
    const whole = readFileSync(numbers)
    await signer.daemon.stop()
    writeFileSync(numbers, whole.subarray(0, 10))
    await assert.rejects(signer.launch(), /crl-numbers: is not the file of CRL numbers/)
    writeFileSync(numbers, whole)
    await signer.launch()
  })
})

async function* inChunks(bytes: Buffer, octets: number, taken = () => {}): AsyncGenerator<Buffer> {
  for (let at = 0; at < bytes.length; at += octets) {
    taken()
    yield bytes.subarray(at, at + octets)
  }
}

function manyEntries(count: number): Buffer {
  const serials = randomBytes(count * 16)
  const revokedAt = now(-3_600_000)
  return encodeCrlEntries(
    Array.from({ length: count }, (_, index) => ({
      serialNumber: serials.subarray(index * 16, index * 16 + 16),
      revokedAt,
      reason: index % 2 === 0 ? 1 : 0,
    })),
  )
}

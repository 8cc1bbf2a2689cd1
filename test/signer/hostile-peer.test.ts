import assert from 'node:assert/strict'
import { randomBytes, randomInt } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import { verifyAuditChain } from '../../signer/audit/audit-commands.ts'
import { decodeError, encodeFrame, type FrameKind, KIND } from '../../signer/protocol/frames.ts'
import { decodeHello, encodeProof } from '../../signer/protocol/handshake.ts'
import { METHODS } from '../../signer/protocol/methods.ts'
import { SignerProtocolError, SignerUnavailable } from '../../signer/protocol/signer-errors.ts'
import { WAIT_MS } from '../support/patience.ts'
import { until } from '../support/until.ts'
import { leafTbs, makeAuthority } from './authority.ts'
import { TestSigner, withSigner } from './daemon.ts'
import { openAuthenticated, openRaw, type RawConnection } from './raw-connection.ts'

const authority = makeAuthority()
const tbs = leafTbs(authority)
const timeoutMs = WAIT_MS
const LIMITS = 'limits: { connections: 8, requests_in_flight: 50, frame_bytes: 20000, handshake_timeout: 120 }\n'
const IMPATIENT = 'limits: { handshake_timeout: 0.4 }\n'
const request = (id: number, method: number, meta: object, payload = tbs) =>
  encodeFrame({ kind: KIND.request, id, method, timeoutMs, meta, payload })
const signRequest = (id: number) => request(id, METHODS.signCertificate.code, { issuer: 'default', requester: 'x' })

describe('a hostile peer', () => {
  const signer = new TestSigner({ default: authority }, { yaml: LIMITS })
  before(() => signer.start())
  after(async () => {
    await signer.client.close()
    assert.equal(await signer.daemon.stop(), 0)
    const verdict = await verifyAuditChain(signer.files.auditFile)
    assert.ok(verdict.ok, JSON.stringify(verdict))
    await signer.end()
  })
  const open = () => openRaw(signer.files.socket)
  const enter = () => openAuthenticated(signer.files.socket, signer.files.secret)
  const stillSigns = () =>
    signer.client.call('signCertificate', { issuer: 'default', requester: 'witness' }, { timeoutMs, payload: tbs })

  async function isTurnedAway(raw: RawConnection, sentence: RegExp): Promise<void> {
    const frame = await raw.next()
    const error = frame && decodeError(frame)
    assert.ok(error instanceof SignerProtocolError, String(error))
    assert.match(error.message, sentence)
    assert.equal(await raw.next(), undefined)
    await stillSigns()
  }

  test('without the secret gets nothing but a refusal', async () => {
    const raw = await open()
    raw.send(encodeProof(randomBytes(32), decodeHello((await raw.next())!), randomBytes(32)))
    await isTurnedAway(raw, /same secret/)
  })

  test('cannot replay the proof of another connection', async () => {
    const first = await open()
    const proof = encodeProof(signer.files.secret, decodeHello((await first.next())!), randomBytes(32))
    const second = await open()
    await second.next()
    second.send(proof)
    await isTurnedAway(second, /same secret/)
    first.socket.destroy()
  })

  for (const method of Object.values(METHODS)) {
    test(`cannot call method ${method.code} before the handshake`, async () => {
      const raw = await open()
      await raw.next()
      raw.send(request(1, method.code, {}, Buffer.alloc(0)))
      await isTurnedAway(raw, /handshake first/)
    })
  }

  test('cannot make the daemon hold much before the handshake', async () => {
    const raw = await open()
    await raw.next()
    raw.send(signRequest(1))
    await isTurnedAway(raw, /at most 256/)
  })

  test('that stays silent is disconnected', () =>
    withSigner(
      async (impatient) => {
        await impatient.launch()
        const raw = await openRaw(impatient.files.socket)
        await raw.next()
        await isTurnedAway(raw, /no handshake in time/)
      },
      { default: authority },
      { yaml: IMPATIENT },
    ))

  test('that sends a malformed frame loses its own connection only', async () => {
    const raw = await enter()
    raw.send(Buffer.alloc(64, 0x41))
    await isTurnedAway(raw, /at most 20000/)
  })

  test('that sends another kind of frame than a request is disconnected', async () => {
    const raw = await enter()
    raw.send(encodeFrame({ kind: KIND.result, id: 1 }))
    await isTurnedAway(raw, /instead of a request/)
  })

  test('is told about unknown methods and bad parameters, and may go on', async () => {
    const raw = await enter()
    for (const bad of [
      request(1, 99, {}),
      request(1, METHODS.signCertificate.code, { issuer: 'default' }),
      request(1, METHODS.signCertificate.code, { issuer: 'default', requester: 'x', digest: 'y' }),
      request(1, METHODS.health.code, { verbose: true }),
    ]) {
      raw.send(bad)
      const frame = (await raw.next())!
      assert.equal(frame.id, 1)
      assert.ok(decodeError(frame) instanceof SignerProtocolError)
    }
    raw.send(signRequest(2))
    assert.equal((await raw.next())?.kind, KIND.result)
    raw.socket.destroy()
  })

  test('cannot fill the health reply with a long error of its own making', async () => {
    const raw = await enter()
    raw.send(request(1, METHODS.health.code, { ['x'.repeat(15_000)]: 1 }, Buffer.alloc(0)))
    assert.ok(decodeError((await raw.next())!) instanceof SignerProtocolError)
    raw.socket.destroy()
    assert.ok((await signer.client.call('health', {}, { timeoutMs })).meta.lastError!.message.length <= 500)
  })

  test('that asks for more than is allowed in flight is told to come back', async () => {
    const raw = await enter()
    raw.send(Buffer.concat(Array.from({ length: 200 }, (_, n) => signRequest(n + 1))))
    const kinds = new Map<FrameKind, number>()
    for (let n = 0; n < 200; n++) {
      const frame = (await raw.next())!
      if (frame.kind !== KIND.result) assert.ok(decodeError(frame) instanceof SignerUnavailable)
      kinds.set(frame.kind, (kinds.get(frame.kind) ?? 0) + 1)
    }
    assert.ok(kinds.get(KIND.result)! >= 50 && kinds.get(KIND.unavailable)! > 0, JSON.stringify([...kinds]))
    raw.socket.destroy()
    await stillSigns()
  })

  test('that opens too many connections is turned away until some close', async () => {
    await stillSigns()
    const all: RawConnection[] = []
    for (let n = 0; n < 7; n++) all.push(await enter())
    const more = await Promise.all(Array.from({ length: 5 }, () => open()))
    const greeted = (await Promise.all(more.map((raw) => raw.next()))).filter((frame) => frame !== undefined)
    assert.equal(greeted.length, 0, `${greeted.length} greeted`)
    for (const raw of all) raw.socket.destroy()
    // The daemon hears of it a moment later.
    await until('a greeting', async () => {
      const raw = await open()
      const greeting = await raw.next()
      raw.socket.destroy()
      return greeting
    })
    await stillSigns()
  })

  test('that opens connections and stays silent keeps nobody out: the oldest of them makes room', async () => {
    const silent: RawConnection[] = []
    for (let n = 0; n < 20; n++) {
      const raw = await open()
      // Greeted, so that it is there before the next.
      assert.ok(await raw.next())
      silent.push(raw)
    }
    const honest = await enter()
    honest.send(signRequest(1))
    assert.equal((await honest.next())?.kind, KIND.result)
    await silent[0]?.closed
    await stillSigns()
    for (const raw of [...silent, honest]) raw.socket.destroy()
  })

  test('that vanishes in the middle of its requests disturbs nobody', async () => {
    for (let n = 0; n < 20; n++) {
      const raw = await enter()
      raw.send(Buffer.concat([signRequest(1), signRequest(2), signRequest(3).subarray(0, randomInt(200))]))
      raw.socket.destroy()
    }
    await stillSigns()
  })
})

/**
 * Random and mutated frames against a running daemon. Every frame gets one typed reply or its connection is cut, whatever is
 * signed is a leaf of this issuer, and afterwards the daemon signs and its audit chain verifies.
 *
 * Everything follows from a seed, which is printed; `CHANCERY_TEST_SEED` repeats it.
 */

import assert from 'node:assert/strict'
import { createPublicKey, randomInt, X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { describe, test } from 'node:test'
import { verifyAuditChain } from '../../signer/audit/audit-commands.ts'
import { decodeError, encodeFrame, type Frame, KIND } from '../../signer/protocol/frames.ts'
import { METHODS } from '../../signer/protocol/methods.ts'
import { SignerProtocolError } from '../../signer/protocol/signer-errors.ts'
import { assembleCertificate } from '../../src/shared/pki/certificate.ts'
import { EXTENSION } from '../../src/shared/pki/oids.ts'
import { WAIT_MS } from '../support/patience.ts'
import { propertyRuns } from '../support/property-runs.ts'
import { leafTbs, makeAuthority } from './authority.ts'
import { useSigner } from './daemon.ts'
import { openAuthenticated, openRaw, type RawConnection } from './raw-connection.ts'
import { rawExtension, rawTbs } from './raw-tbs.ts'
import { rawTbsList } from './raw-tbs-list.ts'

const { numRuns: FRAMES } = propertyRuns(6_000)
const LANES = 4
const MAX_BURST = 60
const timeoutMs = WAIT_MS

/** Where the fields of a frame lie, its own length field included; see signer/protocol/frames.ts. */
const AT = { kind: 4, id: 5, method: 9, metaLength: 14, meta: 16 } as const

const authority = makeAuthority()
const publicKey = createPublicKey(authority.certificatePem)
const issuer = new X509Certificate(authority.certificatePem)
const tbs = leafTbs(authority)
const caTbs = rawTbs(authority, {
  extensions: { basicConstraints: rawExtension(EXTENSION.basicConstraints, true, Buffer.from('30030101ff', 'hex')) },
})
const crl = rawTbsList(authority)
const who = { issuer: 'default', requester: 'fuzz' }

const seed = Number(process.env['CHANCERY_TEST_SEED']) || randomInt(1, 2 ** 31)
let state = seed
/** 0 to `below` - 1: the minimal standard generator of Park and Miller. */
function random(below: number): number {
  state = (state * 48_271) % 2_147_483_647
  return state % below
}
const pick = <T>(choices: readonly T[]): T => choices[random(choices.length)]!
const randomOctets = (length: number) => Buffer.from(Array.from({ length }, () => random(256)))

const METAS: readonly (() => object)[] = [
  () => who,
  () => ({ ...who, bytes: pick([crl.length, 1, 2 ** 31, 2 ** 53 - 1]) }),
  () => ({ upload: randomOctets(16).toString('hex'), offset: pick([0, 1, 2 ** 40]) }),
  () => ({ ...who, bytes: pick([-1, 0.5, '7', null]) }),
  () => ({ ...who, issuer: randomOctets(random(80)).toString('latin1') }),
  () => ({ ...who, requester: randomOctets(random(300)).toString('latin1') }),
  () => ({ ...who, digest: 'x', __proto__: null, constructor: 1 }),
  () => JSON.parse(`${'['.repeat(2000)}${']'.repeat(2000)}`) as object,
  () => ({}),
]

function request(id: number): Buffer {
  const { code } = pick(Object.values(METHODS))
  const payload = pick([
    () => tbs,
    () => mutated(tbs, 0),
    () => mutated(caTbs, 0),
    () => spliced(tbs, caTbs),
    () => spliced(tbs, tbs),
    () => mutated(crl, 0),
    () => tbs.subarray(0, random(tbs.length)),
    () => randomOctets(random(400)),
    () => Buffer.from('3080'.repeat(1 + random(2000)), 'hex'),
  ])()
  return encodeFrame({
    kind: KIND.request,
    id,
    method: code,
    timeoutMs: random(3) * 2000,
    meta: pick(METAS)(),
    payload,
  })
}

/** A good request for a signature over whatever the payload has become. */
function signature(id: number): Buffer {
  const payload = pick([() => mutated(tbs, 0), () => mutated(caTbs, 0), () => spliced(tbs, caTbs), () => tbs])()
  return encodeFrame({
    kind: KIND.request,
    id,
    method: METHODS.signCertificate.code,
    timeoutMs: 5000,
    meta: who,
    payload,
  })
}

/** Some octets anywhere behind the length field. */
const damaged = (id: number): Buffer => mutated(random(2) ? request(id) : signature(id), AT.kind)

/** Some octets of the meta part, which stays where it is. */
function damagedMeta(id: number): Buffer {
  const frame = signature(id)
  return mutated(frame, AT.meta, AT.meta + frame.readUInt16BE(AT.metaLength))
}

function mutated(bytes: Buffer, from: number, to = bytes.length): Buffer {
  const copy = Buffer.from(bytes)
  for (let n = 1 + random(3); n > 0; n--) {
    const at = from + random(to - from)
    copy[at] = pick([random(256), copy[at]! ^ (1 << random(8)), 0, 0xff, 0x80])
  }
  return copy
}

/** A part of one structure in place of a part of the other. */
function spliced(into: Buffer, from: Buffer): Buffer {
  const at = random(into.length)
  const start = random(from.length)
  const piece = from.subarray(start, start + random(200))
  return Buffer.concat([into.subarray(0, at), piece, into.subarray(at + random(2) * piece.length)])
}

const FRAME_MAKERS = [request, signature, signature, damagedMeta, damaged]

const counted = {
  frames: 0,
  connections: 0,
  cut: 0,
  refused: 0,
  unavailable: 0,
  protocolError: 0,
  results: 0,
  signed: 0,
}

describe('a daemon under random and mutated frames', () => {
  const signer = useSigner({ default: authority }, { yaml: 'limits: { frame_bytes: 20000 }\n' })

  test(`answers or cuts off each of ${FRAMES}, signs nothing but leaves, and goes on`, async () => {
    console.log(`seed of the frames: CHANCERY_TEST_SEED=${seed}`)
    await Promise.all(Array.from({ length: LANES }, lane))
    console.log(JSON.stringify(counted))

    const { daemon, files } = signer
    assert.equal(daemon.process.exitCode, null)
    // A frame may have had the serial number of `tbs` signed with other content.
    const another = leafTbs(authority)
    const { payload } = await signer.client.call('signCertificate', who, { timeoutMs, payload: another })
    assert.ok(isSignedLeaf(another, payload))
    await signer.client.close()
    assert.equal(await daemon.stop(), 0)
    const verdict = await verifyAuditChain(files.auditFile)
    assert.ok(verdict.ok, JSON.stringify(verdict))
    // The same content is signed once, however often it comes.
    assert.ok(verdict.signatures > 0)
    for (const kind of ['cut', 'refused', 'protocolError', 'signed'] as const)
      assert.ok(counted[kind] > counted.frames / 500, kind)
  })

  async function lane(): Promise<void> {
    const { socket, secret } = signer.files
    while (counted.frames < FRAMES) {
      counted.connections += 1
      if (random(20) === 0) await assertCutAtOnce(await openRaw(socket))
      else await burst(await openAuthenticated(socket, secret))
    }
  }
})

/** Before the handshake nothing is answered. */
async function assertCutAtOnce(raw: RawConnection): Promise<void> {
  assert.equal((await raw.next())?.kind, KIND.hello)
  raw.send(damaged(1))
  counted.frames += 1
  // A frame whose length announces more than was sent is waited for, until the handshake is too late; this end hurries it.
  raw.socket.end()
  for (let frame = await raw.next(); frame; frame = await raw.next()) {
    assert.ok(decodeError(frame) instanceof SignerProtocolError)
  }
  counted.cut += 1
}

async function burst(raw: RawConnection): Promise<void> {
  const frames = Array.from({ length: 1 + random(MAX_BURST) }, (_, n) => pick(FRAME_MAKERS)(n + 1))
  counted.frames += frames.length
  const endsOutOfStep = random(4) === 0
  if (endsOutOfStep) frames.push(mutated(signature(frames.length + 1), 0, AT.kind))
  raw.send(Buffer.concat(frames))
  if (endsOutOfStep) raw.socket.end()

  for (let replies = 0; replies < frames.length; replies++) {
    const reply = await raw.next()
    if (!reply) {
      counted.cut += 1
      return
    }
    checkReply(reply, frames)
  }
  raw.socket.destroy()
  await once(raw.socket, 'close')
}

function checkReply(reply: Frame, frames: readonly Buffer[]): void {
  if (reply.kind !== KIND.result) {
    const error = decodeError(reply)
    assert.ok(error, `a reply of kind ${reply.kind}`)
    counted[ERROR_COUNTERS[reply.kind as keyof typeof ERROR_COUNTERS]] += 1
    return
  }
  counted.results += 1
  const asked = frames.filter((frame) => frame.readUInt32BE(AT.id) === reply.id)
  const signing = asked.filter((frame) => frame[AT.method] === METHODS.signCertificate.code)
  // Two damaged frames may have one id.
  if (signing.length === 0 || signing.length < asked.length) return
  counted.signed += 1
  assert.ok(
    signing.some((frame) => isSignedLeaf(payloadOf(frame), reply.payload)),
    `what was signed is a leaf of this issuer: ${signing.map((frame) => payloadOf(frame).toString('hex'))}`,
  )
}

const ERROR_COUNTERS = {
  [KIND.refused]: 'refused',
  [KIND.unavailable]: 'unavailable',
  [KIND.protocolError]: 'protocolError',
} as const

const payloadOf = (frame: Buffer) => frame.subarray(AT.meta + frame.readUInt16BE(AT.metaLength))

/** As OpenSSL sees it. */
function isSignedLeaf(signed: Buffer, value: Buffer): boolean {
  try {
    const leaf = new X509Certificate(assembleCertificate(signed, authority.algorithm, value))
    return !leaf.ca && leaf.verify(publicKey) && leaf.checkIssued(issuer)
  } catch {
    return false
  }
}

import assert from 'node:assert/strict'
import { chmodSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import {
  decodeError,
  decodeMeta,
  encodeError,
  encodeFrame,
  type Frame,
  FrameReader,
  KIND,
} from '../../../signer/protocol/frames.ts'
import {
  checkProof,
  checkWelcome,
  decodeHello,
  encodeHello,
  encodeProof,
  encodeWelcome,
  readSharedSecret,
} from '../../../signer/protocol/handshake.ts'
import { METHODS, TEST_MESSAGE } from '../../../signer/protocol/methods.ts'
import {
  SignerNameRefusal,
  SignerProtocolError,
  SignerRefusal,
  SignerUnavailable,
} from '../../../signer/protocol/signer-errors.ts'
import { parseTbsCertificate } from '../../../src/shared/pki/certificate.ts'
import { forAll, forAnyInput } from '../../support/property-runs.ts'
import { unlessRefused } from '../../support/refusals.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

function readAll(bytes: Buffer, maxFrameBytes = 1 << 20): Frame[] {
  const frames: Frame[] = []
  new FrameReader(maxFrameBytes).push(bytes, (frame) => frames.push(frame))
  return frames
}
const readOne = (bytes: Buffer): Frame => readAll(bytes)[0]!

describe('frames', () => {
  const frameArbitrary = fc.record(
    {
      kind: fc.constantFrom(...Object.values(KIND)),
      id: fc.integer({ min: 0, max: 0xffffffff }),
      method: fc.integer({ min: 0, max: 255 }),
      timeoutMs: fc.integer({ min: 0, max: 0xffffffff }),
      meta: fc.dictionary(fc.string(), fc.string(), { noNullPrototype: true }),
      payload: fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes)),
    },
    { noNullPrototype: true },
  )

  test('arrive as they were sent, wherever the stream is cut', () =>
    forAll(fc.array(frameArbitrary, { maxLength: 5 }), fc.array(fc.nat(2000)), (sent, cuts) => {
      const stream = Buffer.concat(sent.map((frame) => encodeFrame(frame)))
      const edges = [0, ...cuts.filter((cut) => cut < stream.length).sort((a, b) => a - b), stream.length]
      const reader = new FrameReader(1 << 20)
      const received: Frame[] = []
      for (let n = 1; n < edges.length; n++)
        reader.push(stream.subarray(edges[n - 1], edges[n]), (f) => received.push(f))
      assert.deepEqual(
        received.map((frame) => ({ ...frame, meta: JSON.parse(frame.meta.toString()) as object })),
        sent,
      )
    }))

  test('random bytes give frames or a SignerProtocolError, nothing else', () =>
    forAnyInput(fc.uint8Array({ maxLength: 200 }), (bytes) => {
      unlessRefused(SignerProtocolError, () => readAll(Buffer.from(bytes)))
    }))

  test('a length beyond the limit is refused before any of it is stored', () => {
    const header = Buffer.alloc(4)
    header.writeUInt32BE(257)
    assert.throws(() => readAll(header, 256), SignerProtocolError)
  })

  for (const [what, bytes] of [
    ['shorter than its header', Buffer.of(0, 0, 0, 3, 16, 0, 0)],
    ['of an unknown kind', Buffer.concat([Buffer.of(0, 0, 0, 12, 99), Buffer.alloc(11)])],
    [
      'whose meta part reaches beyond it',
      Buffer.concat([Buffer.of(0, 0, 0, 12, 16), Buffer.alloc(9), Buffer.of(0, 1)]),
    ],
  ] as const)
    test(`a frame ${what} is a protocol error`, () => assert.throws(() => readAll(bytes), SignerProtocolError))
})

describe('meta parts', () => {
  for (const [what, meta] of [
    ['an unknown member', '{"issuer":"a","requester":"b","digest":"c"}'],
    ['a missing member', '{"issuer":"a"}'],
    ['a requester with a line break', '{"issuer":"a","requester":"b\\nc"}'],
    ['an issuer with a slash', '{"issuer":"../a","requester":"b"}'],
    ['an array', '[]'],
    ['no JSON', '{'],
  ] as const)
    test(`${what} is a protocol error`, () =>
      assert.throws(() => decodeMeta(METHODS.signCertificate.params, Buffer.from(meta)), SignerProtocolError))
})

describe('errors', () => {
  test('keep their kind and sentence', () => {
    for (const error of [
      new SignerRefusal('no'),
      new SignerNameRefusal('a.example is outside'),
      new SignerUnavailable('later'),
      new SignerProtocolError('what?'),
    ]) {
      const received = decodeError(readOne(encodeError(7, error)))
      assert.equal(received?.constructor, error.constructor)
      assert.equal(received?.message, error.message)
    }
  })

  test('an unforeseen error tells the client nothing but to ask again', () => {
    const received = decodeError(readOne(encodeError(7, new Error('/etc/secret'))))
    assert.ok(received instanceof SignerUnavailable)
    assert.doesNotMatch(received.message, /secret/)
  })
})

describe('the handshake', () => {
  const folder = temporaryFolder()
  const secret = Buffer.alloc(32, 1)
  const otherSecret = Buffer.alloc(32, 2)
  const serverNonce = Buffer.alloc(32, 3)
  const clientNonce = Buffer.alloc(32, 4)

  test('succeeds both ways with one secret', () => {
    assert.deepEqual(decodeHello(readOne(encodeHello(serverNonce))), serverNonce)
    const proof = readOne(encodeProof(secret, serverNonce, clientNonce))
    assert.deepEqual(checkProof(secret, serverNonce, proof), clientNonce)
    checkWelcome(secret, serverNonce, clientNonce, readOne(encodeWelcome(secret, serverNonce, clientNonce)))
  })

  test('never sends the secret', () => {
    for (const frame of [
      encodeProof(secret, serverNonce, clientNonce),
      encodeWelcome(secret, serverNonce, clientNonce),
    ])
      assert.equal(frame.includes(secret), false)
  })

  test('fails with another secret, another nonce, or the own proof sent back', () => {
    const proof = readOne(encodeProof(secret, serverNonce, clientNonce))
    assert.throws(() => checkProof(otherSecret, serverNonce, proof), /same secret/)
    assert.throws(() => checkProof(secret, clientNonce, proof), /same secret/)
    const reflected = encodeFrame({ kind: KIND.welcome, payload: proof.payload.subarray(32) })
    assert.throws(() => checkWelcome(secret, serverNonce, clientNonce, readOne(reflected)), /same secret/)
    const foreign = encodeWelcome(otherSecret, serverNonce, clientNonce)
    assert.throws(() => checkWelcome(secret, serverNonce, clientNonce, readOne(foreign)), /same secret/)
  })

  test('accepts only secrets that are long enough and not open to everybody', () => {
    const file = path.join(folder, 'secret')
    writeFileSync(file, Buffer.alloc(31), { mode: 0o600 })
    assert.throws(() => readSharedSecret(file), /31 bytes/)
    writeFileSync(file, Buffer.alloc(32))
    for (const mode of [0o600, 0o640, 0o400]) {
      chmodSync(file, mode)
      assert.equal(readSharedSecret(file).length, 32)
    }
    for (const mode of [0o604, 0o644, 0o660, 0o666]) {
      chmodSync(file, mode)
      assert.throws(() => readSharedSecret(file), /too open/)
    }
  })
})

test('the test message can never be a TBSCertificate', () => {
  assert.notEqual(TEST_MESSAGE[0], 0x30)
  assert.throws(() => parseTbsCertificate(TEST_MESSAGE))
})

/** The signer protocol against frames of the previous release: either end still understands the other (docs/operations/deploy.md). */

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, test } from 'node:test'
import { z } from 'zod/v4'
import { decodeError, decodeMeta, encodeFrame, type Frame, FrameReader, KIND } from '../../../signer/protocol/frames.ts'
import { checkProof, checkWelcome, decodeHello } from '../../../signer/protocol/handshake.ts'
import { METHODS, type MethodName, methodOfCode } from '../../../signer/protocol/methods.ts'
import {
  SignerNameRefusal,
  SignerProtocolError,
  SignerRefusal,
  SignerUnavailable,
} from '../../../signer/protocol/signer-errors.ts'

/** Made by `test/signer/record-frames.ts` in a check-out of that release. */
const FIXTURE = path.resolve(import.meta.dirname, '../../../../test/fixtures/signer-protocol.json')
const { secret, schemas, toSigner, fromSigner } = JSON.parse(readFileSync(FIXTURE, 'utf8')) as {
  secret: string
  schemas: Record<string, { code: number; params: unknown; result: unknown }>
  toSigner: string[]
  fromSigner: string[]
}

interface Recorded {
  frame: Frame
  bytes: Buffer
}

function read(text: string): Recorded {
  const bytes = Buffer.from(text, 'base64')
  const frames: Frame[] = []
  new FrameReader(1 << 20).push(bytes, (frame) => frames.push(frame))
  assert.equal(frames.length, 1)
  return { frame: frames[0] as Frame, bytes }
}

const sent = toSigner.map(read)
const received = fromSigner.map(read)
const ofKind = (all: readonly Recorded[], kind: number) => all.filter(({ frame }) => frame.kind === kind)
const schemaOf = (name: MethodName, part: 'params' | 'result') => METHODS[name][part] as z.ZodType<object>
/** By the id of its request. */
const methodOf = ({ frame: { id } }: Recorded) =>
  methodOfCode(ofKind(sent, KIND.request).find(({ frame }) => frame.id === id)?.frame.method ?? 0)

describe('the signer protocol of the previous release', () => {
  test('has no method that has another code, or another form of its meta parts, by now', () => {
    const names = Object.keys(schemas) as MethodName[]
    const now = Object.fromEntries(
      names.map((name) => {
        const { code, params, result } = METHODS[name]
        return [name, { code, params: z.toJSONSchema(params), result: z.toJSONSchema(result) }]
      }),
    )
    assert.deepEqual(JSON.parse(JSON.stringify(now)), schemas)
  })

  test('has a handshake that either end accepts', () => {
    const key = Buffer.from(secret, 'hex')
    const hellos = ofKind(received, KIND.hello)
    assert.ok(hellos.length > 0)
    for (const [at, hello] of hellos.entries()) {
      const serverNonce = decodeHello(hello.frame)
      const clientNonce = checkProof(key, serverNonce, (ofKind(sent, KIND.proof)[at] as Recorded).frame)
      checkWelcome(key, serverNonce, clientNonce, (ofKind(received, KIND.welcome)[at] as Recorded).frame)
    }
  })

  test('has requests that this signer reads and this client writes, byte for byte', () => {
    const requests = ofKind(sent, KIND.request).filter(({ frame }) => frame.method !== 255)
    const seen = new Set<MethodName>()
    for (const { frame, bytes } of requests) {
      const name = methodOfCode(frame.method) as MethodName
      seen.add(name)
      assert.deepEqual(encodeFrame({ ...frame, meta: decodeMeta(schemaOf(name, 'params'), frame.meta) }), bytes)
    }
    assert.deepEqual([...seen].sort(), Object.keys(schemas).sort())
  })

  test('has replies that this client reads and this signer writes, byte for byte', () => {
    const seen = new Set<MethodName>()
    for (const reply of ofKind(received, KIND.result)) {
      const name = methodOf(reply) as MethodName
      seen.add(name)
      const { frame, bytes } = reply
      assert.deepEqual(encodeFrame({ ...frame, meta: decodeMeta(schemaOf(name, 'result'), frame.meta) }), bytes)
    }
    assert.deepEqual([...seen].sort(), Object.keys(schemas).sort())
  })

  test('has errors that mean the same', () => {
    const failures = received.flatMap(({ frame }) => decodeError(frame) ?? [])
    const types = failures.map((failure) => failure.constructor)
    assert.deepEqual(types, [SignerRefusal, SignerNameRefusal, SignerProtocolError, SignerUnavailable])
    assert.match(failures[2]?.message ?? '', /^unknown method 255$/)
  })
})

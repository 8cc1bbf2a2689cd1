/** A client and a signer that stops: what the signer has not begun goes to its successor. */

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { createServer, type Server, type Socket } from 'node:net'
import path from 'node:path'
import { afterEach, beforeEach, describe, test } from 'node:test'
import { encodeError, encodeFrame, type Frame, FrameReader, KIND } from '../../signer/protocol/frames.ts'
import { checkProof, encodeHello, encodeWelcome, NONCE_BYTES } from '../../signer/protocol/handshake.ts'
import { METHODS } from '../../signer/protocol/methods.ts'
import { SignerAnswerLost, SignerUnavailable } from '../../signer/protocol/signer-errors.ts'
import { SignerClient } from '../../src/ca/signer-client.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const timeoutMs = 60_000
/** As every release of the signer says it. */
const STOPPING = 'the signer is shutting down'
const DESCRIPTION = { version: 'test', issuers: [] }
const UPLOAD = '0'.repeat(32)

describe('a signer that stops', () => {
  const secret = randomBytes(32)
  const folder = temporaryFolder()
  let server: Server
  let client: SignerClient
  let stopsFor: number
  let connections: number
  beforeEach(async () => {
    const socketPath = path.join(folder, 'signer.sock')
    connections = 0
    server = createServer((socket) => serve(socket, ++connections <= stopsFor))
    await new Promise<void>((resolve) => server.listen(socketPath, resolve))
    client = new SignerClient({ socketPath, secret, backoffMs: { first: 1, longest: 5 } })
  })
  afterEach(async () => {
    await client.close()
    server.close()
  })

  /** Through the handshake; then one answer a request, or for a stopping signer the one refusal and the end. */
  function serve(socket: Socket, isStopping: boolean): void {
    const serverNonce = randomBytes(NONCE_BYTES)
    const reader = new FrameReader(1 << 20)
    const answer = (frame: Frame) => {
      if (frame.kind === KIND.proof) {
        socket.write(encodeWelcome(secret, serverNonce, checkProof(secret, serverNonce, frame)))
      } else if (frame.method === METHODS.describe.code) {
        socket.write(encodeFrame({ kind: KIND.result, id: frame.id, meta: DESCRIPTION }))
      } else if (isStopping) {
        socket.end(encodeError(frame.id, new SignerUnavailable(STOPPING)))
      } else socket.write(encodeFrame({ kind: KIND.result, id: frame.id, meta: { upload: UPLOAD } }))
    }
    socket.on('error', () => undefined) // the client closes whenever it likes
    socket.on('data', (chunk: Buffer) => reader.push(chunk, answer))
    socket.write(encodeHello(serverNonce))
  }

  const begin = (withinMs: number) =>
    client.call('beginCrl', { issuer: 'default', requester: 'x', bytes: 1 }, { timeoutMs: withinMs })

  test('has its requests done by the third that comes after it', async () => {
    stopsFor = 3
    assert.deepEqual((await begin(timeoutMs)).meta, { upload: UPLOAD })
    assert.equal(connections, 4)
  })

  test('has surely not begun them when nobody comes after it in time', async () => {
    stopsFor = Number.POSITIVE_INFINITY
    await assert.rejects(
      begin(200),
      (error) => error instanceof SignerUnavailable && !(error instanceof SignerAnswerLost),
    )
  })
})

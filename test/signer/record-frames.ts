/**
 * Records what a signer and its client say to each other: `node compiled/test/signer/record-frames.js > test/fixtures/signer-protocol.json`,
 * in a check-out of a release. `previous-frames.test.ts` holds later releases to it.
 *
 * Every method succeeds once, and each kind of error comes once: an issuer is missing, a name is refused, a method is unknown,
 * and the signer is busy. Written are also the schemas of the meta parts.
 */

import { connect, createServer, type Socket } from 'node:net'
import path from 'node:path'
import { z } from 'zod/v4'
import { encodeFrame, type Frame, FrameReader, KIND } from '../../signer/protocol/frames.ts'
import { METHODS } from '../../signer/protocol/methods.ts'
import { SignerBackend } from '../../src/ca/signer-backend.ts'
import { leafTbs, makeAuthority, writeSignerFiles } from './authority.ts'
import { startDaemon } from './daemon.ts'
import { openAuthenticated } from './raw-connection.ts'
import { rawTbsList } from './raw-tbs-list.ts'

const IN_FLIGHT = 2
const options = { timeoutMs: 10_000, requester: 'recording' }

/** Whole frames in base64, by direction and in order. */
interface Recording {
  toSigner: string[]
  fromSigner: string[]
}

const authority = makeAuthority('P-256')
const above = makeAuthority('P-256', { name: 'Above', by: authority })
const limits = `limits: { requests_in_flight: ${IN_FLIGHT} }\n`
const files = writeSignerFiles({ default: authority, other: above }, limits, '{ permitted: { dns: ["example.org"] } }')
const daemon = await startDaemon(files.config)
const recording: Recording = { toSigner: [], fromSigner: [] }
const between = path.join(files.folder, 'recorded.sock')
const server = createServer((client) => {
  const signer = connect(files.socket)
  passOn(client, signer, recording.toSigner)
  passOn(signer, client, recording.fromSigner)
}).listen(between)

const backend = new SignerBackend({ socketPath: between, secret: files.secret })
await backend.testSign(options)
await backend.health(options)
await backend.signCertificate('default', leafTbs(authority), options)
const list = rawTbsList(authority, { number: 1n })
const { algorithm: signatureAlgorithm } = authority
await backend.signCrl('default', { signatureAlgorithm, length: list.length, pieces: inOnePiece(list) }, options)
await expectFailure(backend.signCertificate('nobody', leafTbs(authority), options))
await expectFailure(backend.signCertificate('default', leafTbs(authority, { dnsNames: ['www.example.com'] }), options))
const raw = await openAuthenticated(between, files.secret)
const meta = { issuer: 'default', requester: 'recording' }
raw.send(encodeFrame({ kind: KIND.request, id: 100, method: 255, timeoutMs: 1000 }))
await raw.next()
const signing = Array.from({ length: 1 + IN_FLIGHT }, (_, at) =>
  encodeFrame({ kind: KIND.request, id: 101 + at, method: METHODS.testSign.code, timeoutMs: 1000, meta }),
)
raw.send(Buffer.concat(signing))
for (const _ of signing) await raw.next()
raw.socket.destroy()
await backend.close()
await daemon.stop()
server.close()

const schemas = Object.fromEntries(
  Object.entries(METHODS).map(([name, { code, params, result }]) => [
    name,
    { code, params: z.toJSONSchema(params), result: z.toJSONSchema(result) },
  ]),
)
process.stdout.write(
  `${JSON.stringify({ secret: files.secret.toString('hex'), schemas, ...recording }, undefined, 1)}\n`,
)

async function* inOnePiece(piece: Buffer): AsyncGenerator<Buffer> {
  yield piece
}

async function expectFailure(work: Promise<unknown>): Promise<void> {
  const isSigned = await work.then(
    () => true,
    () => false,
  )
  if (isSigned) throw new Error('it was signed')
}

function passOn(from: Socket, to: Socket, frames: string[]): void {
  const reader = new FrameReader(1 << 20)
  from.on('data', (chunk: Buffer) => {
    reader.push(chunk, (frame) => frames.push(encodedAgain(frame)))
    to.write(chunk)
  })
  from.on('close', () => to.destroy())
  from.on('error', () => to.destroy())
}

/** The same bytes: its meta part is written as it came. */
function encodedAgain({ meta, ...frame }: Frame): string {
  return encodeFrame({ ...frame, meta: JSON.parse(meta.toString('utf8')) as object }).toString('base64')
}

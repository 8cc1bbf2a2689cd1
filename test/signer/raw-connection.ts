/** A connection to the daemon without the client of the product: it can send anything. */

import { randomBytes } from 'node:crypto'
import { connect, type Socket } from 'node:net'
import { type Frame, FrameReader, KIND } from '../../signer/protocol/frames.ts'
import { decodeHello, encodeProof } from '../../signer/protocol/handshake.ts'

export interface RawConnection {
  socket: Socket
  send(bytes: Buffer): void
  /** The next frame, or undefined when the daemon closes the connection. */
  next(): Promise<Frame | undefined>
  closed: Promise<void>
}

export async function openRaw(socketPath: string): Promise<RawConnection> {
  const socket = connect(socketPath)
  socket.on('error', () => {})
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()))
  const frames: Frame[] = []
  let wake = () => {}
  const reader = new FrameReader(1 << 20)
  socket.on('data', (chunk: Buffer) => {
    reader.push(chunk, (frame) => frames.push(frame))
    wake()
  })
  void closed.then(() => wake())
  return {
    socket,
    closed,
    send: (bytes) => socket.write(bytes),
    async next() {
      while (frames.length === 0 && !socket.closed) await new Promise<void>((resolve) => (wake = resolve))
      return frames.shift()
    },
  }
}

/** Connected and through the handshake. */
export async function openAuthenticated(socketPath: string, secret: Buffer): Promise<RawConnection> {
  const raw = await openRaw(socketPath)
  raw.send(encodeProof(secret, decodeHello((await raw.next())!), randomBytes(32)))
  if ((await raw.next())?.kind !== KIND.welcome) throw new Error('the handshake failed')
  return raw
}

/** Sends a body of unknown length, a piece whenever the socket has room. */

import type { Exchange } from './exchange.ts'
import type { BodyRest } from './message.ts'

/** @returns false when the client went away; the caller ends the reply otherwise */
export async function pourBody(exchange: Exchange, first: string | Buffer, rest: BodyRest): Promise<boolean> {
  const { res } = exchange
  let onRoom = (): void => undefined
  exchange.onOver = () => {
    rest.cancel()
    onRoom()
  }
  res.onWritable(() => {
    onRoom()
    return true
  })
  for (let piece: string | Buffer | undefined = first; piece !== undefined; piece = await rest.next()) {
    if (exchange.over) return false
    const octets = piece
    let hasRoom = true
    if (octets.length > 0)
      res.cork(() => {
        hasRoom = res.write(octets)
      })
    if (!hasRoom) await new Promise<void>((resolve) => (onRoom = resolve))
    // What was cancelled meanwhile has no next piece.
    if (exchange.over) return false
  }
  return !exchange.over
}

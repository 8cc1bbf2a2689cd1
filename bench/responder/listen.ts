/** A TCP or TLS server for a responder, and its end: connections of validators do not outlive it. */

import type { Server, Socket } from 'node:net'

export interface Responder {
  port: number
  close(): Promise<void>
}

/** Proofs for validators, by the name they look under; generators put them in before they trigger a challenge. */
export type Proofs = Map<string, string>

/** @param what for the message. @throws Error when the port cannot be listened on */
export async function listen(server: Server, what: string, host: string, port: number): Promise<Responder> {
  const sockets = new Set<Socket>()
  server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
    // A validator that hangs up early is its own business; the authorization will tell.
    socket.on('error', () => socket.destroy())
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error) => reject(new Error(`${what} responder on ${host}:${port}: ${error.message}`)))
    server.listen(port, host, () => resolve())
  })
  return {
    port: (server.address() as { port: number }).port,
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve())
        for (const socket of sockets) socket.destroy()
      }),
  }
}

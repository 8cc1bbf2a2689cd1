/** Whether a server of others can be reached: a connection and its handshake, and not one request. */

import { connect as connectPlain } from 'node:net'
import { connect as connectTls, type TLSSocket } from 'node:tls'
import { isIpAddress } from '../../shared/lib/host.ts'

export type Reached =
  | { failure: string; problem?: never; validTo?: never }
  /** `problem`: why a client that trusts `trusted` refuses its certificate. */
  | { failure?: never; problem: string | undefined; validTo: string | undefined }

const LIMIT_MS = 8_000

/** @param trusted PEM of the roots that count */
export function reach(url: string, trusted: readonly string[]): Promise<Reached> {
  const { protocol, hostname, port } = new URL(url)
  const host = hostname.replace(/^\[|\]$/g, '')
  return protocol === 'https:'
    ? connectTo(host, Number(port) || 443, LIMIT_MS, trusted)
    : connectTo(host, Number(port) || 80, LIMIT_MS)
}

/** @param trusted as above; undefined where the server speaks no TLS */
export function connectTo(host: string, port: number, timeout: number, trusted?: readonly string[]): Promise<Reached> {
  return new Promise((resolve) => {
    const socket = trusted
      ? connectTls({
          host,
          port,
          timeout,
          rejectUnauthorized: false,
          ca: [...trusted],
          ...(!isIpAddress(host) && { servername: host }),
        })
      : connectPlain({ host, port, timeout })
    const end = (reached: Reached) => {
      socket.destroy()
      resolve(reached)
    }
    socket.once(trusted ? 'secureConnect' : 'connect', () => end(trusted ? seen(socket as TLSSocket) : NO_TLS))
    socket.once('timeout', () => end({ failure: `no answer within ${timeout / 1000} s` }))
    socket.once('error', (error: NodeJS.ErrnoException) => end({ failure: error.code ?? error.message }))
  })
}

const NO_TLS: Reached = { problem: undefined, validTo: undefined }

function seen(socket: TLSSocket): Reached {
  const { authorized, authorizationError } = socket
  const { valid_to: validTo } = socket.getPeerCertificate()
  return { problem: authorized ? undefined : String(authorizationError), validTo }
}

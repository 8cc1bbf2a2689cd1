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
  const isTls = protocol === 'https:'
  return new Promise((resolve) => {
    const at = { host, port: Number(port) || (isTls ? 443 : 80), timeout: LIMIT_MS }
    const socket = isTls
      ? connectTls({
          ...at,
          rejectUnauthorized: false,
          ca: [...trusted],
          ...(!isIpAddress(host) && { servername: host }),
        })
      : connectPlain(at)
    const end = (reached: Reached) => {
      socket.destroy()
      resolve(reached)
    }
    socket.once(isTls ? 'secureConnect' : 'connect', () => end(isTls ? seen(socket as TLSSocket) : NO_TLS))
    socket.once('timeout', () => end({ failure: `no answer within ${LIMIT_MS / 1000} s` }))
    socket.once('error', (error: NodeJS.ErrnoException) => end({ failure: error.code ?? error.message }))
  })
}

const NO_TLS: Reached = { problem: undefined, validTo: undefined }

function seen(socket: TLSSocket): Reached {
  const { authorized, authorizationError } = socket
  const { valid_to: validTo } = socket.getPeerCertificate()
  return { problem: authorized ? undefined : String(authorizationError), validTo }
}

/**
 * Adds what pg lacks of libpq: `sslmode=prefer`, and no clear-text password over a network without
 * TLS. Root's commands have it connect through the service's user.
 *
 * Patches the package's own classes, because slonik makes its clients from them too.
 */

import type { ConnectionOptions } from 'node:tls'
import pg from 'pg'
import { isSocketFolder } from '../shared/lib/host.ts'

export type SslMode = 'disable' | 'allow' | 'prefer' | 'require' | 'verify-ca' | 'verify-full'

/** Options that pg passes to `tls.connect`, which ignores our member. */
interface TlsOptions extends ConnectionOptions {
  /** Continue without TLS if the server has none. */
  onlyWhereOffered?: true
}

/**
 * pg's `ssl` option. Without `rootCertificates` (PEM), the roots of Node.js count. As in libpq, a Unix socket has no
 * TLS; unlike libpq, `allow` means `prefer`, not clear text first.
 */
export function tlsOptions(host: string, sslmode: SslMode, rootCertificates?: string): TlsOptions | false {
  if (sslmode === 'disable' || isSocketFolder(host)) return false
  if (sslmode === 'prefer' || sslmode === 'allow') return { rejectUnauthorized: false, onlyWhereOffered: true }
  return {
    rejectUnauthorized: sslmode !== 'require',
    ...(rootCertificates !== undefined && { ca: rootCertificates }),
    // verify-ca checks the issuer, not the server's name.
    ...(sslmode === 'verify-ca' && { checkServerIdentity: () => undefined }),
  }
}

/** Members of pg's classes that are used here and missing from its types. */
interface PgConnection extends pg.Connection {
  ssl: TlsOptions | false
  connect(port: number | string, host?: string): void
  attachListeners(stream: PgConnection['stream']): void
}

/** The driver remembers the statements that it has prepared. */
interface PreparedStatements {
  connection: { parsedStatements: object; submittedNamedStatements: object }
}

/** All are prepared again at their next use. @returns false when the connection is lost */
export async function forgetStatements(client: pg.ClientBase): Promise<boolean> {
  try {
    await client.query('DEALLOCATE ALL')
  } catch {
    return false
  }
  const { connection } = client as unknown as PreparedStatements
  connection.parsedStatements = {}
  connection.submittedNamedStatements = {}
  return true
}

interface PgClient {
  host: string
  connection: PgConnection
  _handleAuthCleartextPassword(message: unknown): void
}

const connections = pg.Connection.prototype as PgConnection
const { connect } = connections

const elsewhere = new Map<string, string>()

/** From now on sessions of a Unix socket begin at another one. */
export const connectElsewhere = (socket: string, place: string): unknown => elsewhere.set(socket, place)

connections.connect = function (port, host) {
  connect.call(this, elsewhere.get(String(port)) ?? port, host)
  const isPreferred = this.ssl !== false && this.ssl.onlyWhereOffered
  if (!isPreferred) return
  const { stream } = this
  const [answer] = stream.listeners('data') as ((bytes: Buffer) => void)[]
  stream.removeAllListeners('data')
  stream.once('data', (bytes: Buffer) => {
    // Accepts only that one byte: an error or clear text may come from a man in the middle.
    if (bytes.toString('latin1') !== 'N') return answer?.(bytes)
    this.ssl = false
    this.attachListeners(stream)
    this.emit('sslconnect')
  })
}

const clients = pg.Client.prototype as unknown as PgClient
const { _handleAuthCleartextPassword: giveClearText } = clients

clients._handleAuthCleartextPassword = function (message) {
  const { stream } = this.connection
  if ('encrypted' in stream || isSocketFolder(this.host)) return giveClearText.call(this, message)
  this.connection.emit(
    'error',
    new Error(
      'the server asks for the password in clear text, and the connection has no TLS; let the server offer TLS, or ask for scram-sha-256 in its pg_hba.conf',
    ),
  )
  stream.destroy()
}

/** Ends a connection at once, also one that is being opened or that nobody answers. What runs on it fails. */
export function cutOff(client: pg.Client): void {
  ;(client as unknown as PgClient).connection.stream.destroy()
}

export { default } from 'pg'

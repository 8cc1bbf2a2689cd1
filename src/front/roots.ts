/** GET and HEAD of the trust bundle (`api.roots_path`), from memory. */

import type { AcmeApplication } from '../acme/application.ts'
import type { Header, HttpReply } from '../http/http-message.ts'
import type { TrustBundle } from '../services/trust-bundle.ts'
import { Problem } from '../shared/protocol/problem.ts'
import type { Exchange } from './exchange.ts'
import { hasTag, headersOf, isRead, type OperationsOptions } from './operations.ts'

/** What step-ca and others send; application/pem-certificate-chain would promise an order (RFC 8555 §9.1). */
const CONTENT_TYPE = 'application/x-pem-file'
/** A new root is handed out long before it is used. */
const MAX_AGE_SECONDS = 3600
const NO_ROOT =
  'the chains of the issuers contain no root; the operator of this service can name a file with it in api.roots_file'
const UNKNOWN = 'the signer has not named its issuers yet; try again soon'
/** A connection to a signer that runs takes milliseconds. */
const UNKNOWN_RETRY_SECONDS = 2

/** The bundle; undefined while the issuers are not known. */
export type FrontRoots = () => TrustBundle | undefined

export function rootsReplyTo(
  exchange: Exchange,
  options: Pick<OperationsOptions, 'securityHeaders'> & { roots: FrontRoots | undefined },
  acme: Pick<AcmeApplication, 'problem'>,
): HttpReply {
  const refuse = (...problem: ConstructorParameters<typeof Problem>) => acme.problem(new Problem(...problem), exchange)
  if (!isRead(exchange))
    return refuse('malformed', 'roots are fetched with GET', { status: 405, allow: ['GET', 'HEAD'] })
  const bundle = options.roots?.()
  if (!bundle) return refuse('serverInternal', UNKNOWN, { status: 503, retryAfterSeconds: UNKNOWN_RETRY_SECONDS })
  const { pem, etag } = bundle
  if (pem === '') return refuse('malformed', NO_ROOT, { status: 404 })
  const headers: Header[] = [
    ['ETag', etag],
    ['Cache-Control', `public, max-age=${MAX_AGE_SECONDS}`],
    ...headersOf(exchange, options),
  ]
  if (hasTag(exchange.http.header('if-none-match'), etag)) return { status: 304, headers, body: '' }
  return { status: 200, headers: [['Content-Type', CONTENT_TYPE], ...headers], body: pem }
}

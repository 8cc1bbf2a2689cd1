/**
 * The CRLs over plain HTTP (`crl.http_port`). A client that checks TLS certificates against a list
 * cannot fetch the list over TLS (RFC 5280 §8).
 */

import type { AcmeApplication } from '../acme/application.ts'
import type { HttpRequest } from '../http/message.ts'
import type { HttpServer, ListenOptions } from '../http/server.ts'
import { listen } from '../http/uws.ts'
import { Problem } from '../shared/protocol/problem.ts'
import type { Front } from './front.ts'

/** GET requests have no body. */
const MAX_BODY_BYTES = 1024

/** @param front built for plain HTTP clients */
export async function listenForCrls(
  { tls: _, ...options }: ListenOptions,
  port: number,
  front: Front,
  { match }: Pick<AcmeApplication, 'match'>,
): Promise<HttpServer> {
  const refuse = (http: HttpRequest, detail: string, status: number) =>
    front.answerWith(new Problem('malformed', detail, { status }), http)
  return listen({
    ...options,
    port,
    maxBodyBytes: MAX_BODY_BYTES,
    admit: (http) => front.admit(http),
    handler: (http) =>
      match(http.path)?.resource === 'crl' ? front.handle(http) : refuse(http, 'only CRLs are at this port', 404),
    onError: (error, http) => front.onError(error, http),
    busy: (http) => front.busy(http),
    tooLarge: (http) => refuse(http, 'a CRL is fetched without a body', 413),
  })
}

/** The documents that a front thread publishes: CRLs and roots, on its port and over plain HTTP (`crl.http_port`). */

import type { Logger } from 'pino'
import type { AcmeApplication } from '../../acme/application.ts'
import type { CaBackend } from '../../ca/backend.ts'
import { hasSigner } from '../../config/backends.ts'
import type { Config } from '../../config/schema.ts'
import type { Front, FrontOptions } from '../../front/front.ts'
import type { CrlDocument, FrontCrls } from '../../front/operations.ts'
import type { HttpRequest, HttpServer, ListenOptions } from '../../http/http-message.ts'
import { listen } from '../../http/uws.ts'
import { createTrustBundle, readRootsPem } from '../../services/trust-bundle.ts'
import { bufferOver } from '../../shared/lib/shared-memory.ts'
import { Problem } from '../../shared/protocol/problem.ts'
import type { ResourceName } from '../../shared/protocol/urls.ts'
import type { SharedCrl, SharedCrls } from '../messages.ts'

export interface ThreadCrls extends FrontCrls {
  /** Replaces all lists with these. */
  replace(crls: SharedCrls): undefined
}

export function createFrontCrls(first: SharedCrls, { rebuild_interval_seconds, complete }: Config['crl']): ThreadCrls {
  let documents = documentsOf(first.lists)
  let { withheld } = first
  return {
    maxAgeSeconds: rebuild_interval_seconds,
    find: (name) => documents.get(name),
    isInParts: (name) =>
      !complete &&
      !documents.has(name) &&
      [...documents.keys()].some((part) => name === '' || part.startsWith(`${name}/`)),
    isWithheld: (name) => withheld.includes(name),
    replace(crls) {
      documents = documentsOf(crls.lists)
      withheld = crls.withheld
      return undefined
    },
  }
}

/** The bytes stay in shared memory: a 50 MB list exists once for all threads. */
function documentsOf(crls: readonly SharedCrl[]): ReadonlyMap<string, CrlDocument> {
  const documents = crls.map((crl): [string, CrlDocument] => [crl.name, { ...crl, der: bufferOver(crl.der) }])
  return new Map([
    ...documents,
    ...documents.flatMap(([, document], at) => (crls[at]?.isDefault ? [['', document] as const] : [])),
  ])
}

/** Clients need both before they can use TLS. */
const PLAIN: ReadonlySet<ResourceName | undefined> = new Set(['crl', 'roots'])
/** GET requests have no body. */
const MAX_BODY_BYTES = 1024

/**
 * A client that checks TLS certificates against a list cannot fetch the list over TLS (RFC 5280 §8).
 * @param front built for plain HTTP clients
 */
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
    admit: front.admit,
    handler: (http) =>
      PLAIN.has(match(http.path)?.resource)
        ? front.handle(http)
        : refuse(http, 'only CRLs and roots are at this port', 404),
    onError: front.onError,
    busy: front.busy,
    tooLarge: (http) => refuse(http, 'a CRL is fetched without a body', 413),
  })
}

export interface RootParts {
  ca: Pick<CaBackend, 'issuers'>
  log: Logger
}

/**
 * The trust bundle (`api.roots_path`).
 * @param rootsPem text of `api.roots_file`, checked
 */
export function createFrontRoots(
  config: Config,
  { ca }: Pick<RootParts, 'ca'>,
  rootsPem: string,
): FrontOptions['roots'] {
  if (config.api.roots_path === null) return undefined
  const bundle = createTrustBundle(ca.issuers, readRootsPem(rootsPem))
  // A thread knows no issuer before its own connection to the signer is made.
  return () => (hasSigner(config) && ca.issuers().length === 0 ? undefined : bundle())
}

export function warnOfMissingRoots(config: Config, { ca, log }: RootParts, rootsPem: string): void {
  const { rootless = [] } = createFrontRoots(config, { ca }, rootsPem)?.() ?? {}
  if (rootless.length > 0)
    log.warn(
      { issuers: rootless },
      'api.roots_path serves no root of these issuers; name a file with it in api.roots_file',
    )
}

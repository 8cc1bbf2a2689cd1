/** Calls operations of the Admin API on the database itself: with a configuration file, and without a service. */

import { randomUUID, X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { readSharedSecret } from '../../../signer/protocol/handshake.ts'
import { AdminApplication } from '../../admin/admin-application.ts'
import type { AuditLog } from '../../admin/audit/audit-log.ts'
import type { AdminContext, AdminEvents, SigningIssuer } from '../../admin/context.ts'
import { ENDPOINTS } from '../../admin/endpoints.ts'
import { ReplyStreams } from '../../admin/streams.ts'
import { HASHING_HERE } from '../../admin/users/passwords.ts'
import { SignerClient } from '../../ca/signer-client.ts'
import type { Config } from '../../config/schema.ts'
import { AdminError } from '../../domain/admin-error.ts'
import type { Actor } from '../../domain/administrator.ts'
import { createAdminContext } from '../../main/admin/create-context.ts'
import { adminSettings, requireAuditKey } from '../../settings/admin-settings.ts'
import { ownIssuer } from '../../settings/signer-settings.ts'
import { VERSION } from '../../shared/lib/program-files.ts'
import { type DatabasePool, queriesOf } from '../../store/slonik.ts'
import { addRevocations, type RevocationTally } from '../../store/switch-store.ts'
import { type Administration, configuredSigner, withAdministration } from '../operator-database.ts'
import { AdminCaller } from './admin-caller.ts'

/** @param schema `any` for what must work between two releases */
export function withLocalCaller(
  config: Config,
  { schema, emergency }: { schema: 'current' | 'any'; emergency: string | undefined },
  work: (caller: AdminCaller) => Promise<number>,
): Promise<number> {
  const withAdmin = async ({ db, audit, actor: operator }: Administration) => {
    const api = new LocalAdminApi({
      config,
      db,
      audit,
      operator,
      emergency,
      signingIssuers: () => signingIssuers(config),
    })
    const { baseUrl, fetch } = api
    const caller = new AdminCaller({
      baseUrl,
      fetch: fetch as typeof globalThis.fetch,
      token: () => undefined,
      explain: (error) => error,
    })
    try {
      return await work(caller)
    } finally {
      await api.close()
    }
  }
  return withAdministration(config, withAdmin, schema)
}

/** A running signer answers within milliseconds. */
const SIGNER_TIMEOUT_MS = 5_000

/**
 * The issuers of the configured signer, asked without an instance of the service.
 * @throws Error when a file cannot be read, or the signer does not answer
 */
async function signingIssuers(config: Config): Promise<readonly SigningIssuer[]> {
  const own = ownIssuer(config)
  if (own) return [{ id: own.id, certificate: new X509Certificate(await readFile(own.certificateFile)).raw }]
  const configured = configuredSigner(config)
  if (!configured) return []
  const { socketPath, secretFile } = configured
  const client = new SignerClient({ socketPath, secret: readSharedSecret(secretFile) })
  try {
    const { issuers } = await client.describe(SIGNER_TIMEOUT_MS)
    return issuers.flatMap(({ id, chain: [certificate] }) => (certificate ? [{ id, certificate }] : []))
  } finally {
    await client.close()
  }
}

interface LocalApiOptions {
  config: Config
  db: DatabasePool
  audit: AuditLog
  /** The author of every request; no token is asked for. */
  operator: Actor
  /** Why the operator does alone what another person should approve. */
  emergency: string | undefined
  signingIssuers(): Promise<readonly SigningIssuer[]>
}

/** The Admin API without a server: its requests are answered in this process. */
class LocalAdminApi {
  readonly baseUrl: string
  readonly #context: AdminContext
  readonly #application: AdminApplication
  readonly #streams = new ReplyStreams()
  readonly #db: DatabasePool
  /** Metrics are the service's. */
  readonly #tally: RevocationTally = { certificates: 0, accounts: 0 }
  /** The error that the application would log, of a request or of a job. */
  #failure: unknown

  constructor({ config, db, audit, operator, emergency, signingIssuers }: LocalApiOptions) {
    this.baseUrl = adminSettings(config).baseUrl
    this.#db = db
    const note = ({ err }: { err?: unknown }) => this.#fail(err)
    this.#context = createAdminContext(
      { config, version: VERSION },
      {
        db,
        audit,
        auditKey: () => requireAuditKey(config),
        events: this.#events(),
        hashing: HASHING_HERE,
        isCommand: true,
        signingIssuers,
        // The next list has them, and the signer records it.
        noteRevocations: async () => {},
        ask: () => Promise.reject(new AdminError('unavailable', 'only the service itself can tell; ask with --server')),
      },
    )
    this.#application = new AdminApplication({
      endpoints: ENDPOINTS,
      context: this.#context,
      streams: this.#streams,
      baseUrl: this.baseUrl,
      operator,
      emergency,
      log: { warn: note, error: note } as never,
    })
  }

  /** It stands for `fetch`, below `baseUrl`. @throws what the service would only log */
  readonly fetch = async (url: string, init: RequestInit): Promise<Response> => {
    const { pathname, search } = new URL(url)
    const sent = typeof init.body === 'string' ? init.body : ''
    const { status, headers, body, octets, stream } = await this.#application.handle({
      requestId: randomUUID(),
      method: init.method ?? 'GET',
      query: search.slice(1),
      address: '',
      path: pathname.slice(new URL(this.baseUrl).pathname.length),
      authorization: undefined,
      contentType: 'application/json',
      body: Buffer.from(sent),
    })
    if (this.#failure !== undefined) throw this.#failure
    const whole = octets ? Buffer.from(octets) : body
    const content = stream === undefined ? whole : ReadableStream.from(this.#pieces(body, stream))
    return new Response(status === 204 ? null : content, { status, headers: headers.map(([...pair]) => pair) })
  }

  /** Ends the work in hand. */
  async close(): Promise<void> {
    await Promise.all([this.#context.bulkRevocations.stop(), this.#context.auditVerifications.stop()])
    await addRevocations(queriesOf(this.#db), this.#tally)
  }

  #events(): AdminEvents {
    const count = (certificates: number) => {
      this.#tally.certificates += certificates
    }
    return {
      certificates: { revoked: () => count(1) },
      bulkRevocations: {
        revoked: (_job, revoked) => count(revoked),
        failed: (_job, error) => this.#fail(error),
        notLooked: () => undefined,
      },
      auditVerifications: { failed: (error) => this.#fail(error) },
      oidc: { failed: (error) => this.#fail(error) },
      credentials: {
        accountsRevoked: (accounts) => {
          this.#tally.accounts += accounts
        },
      },
    }
  }

  async *#pieces(first: string, stream: string): AsyncGenerator<Uint8Array> {
    let piece: string | undefined = first
    while (piece !== undefined) {
      yield Buffer.from(piece)
      piece = await this.#streams.next(stream)
    }
  }

  #fail(error: unknown): void {
    this.#failure ??= error
  }
}

/** Calls operations of the Admin API on the database itself: with a configuration file, and without a service. */

import { X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { readSharedSecret } from '../../../signer/protocol/handshake.ts'
import type { SigningIssuer } from '../../admin/context.ts'
import { SignerClient } from '../../ca/signer-client.ts'
import type { Config } from '../../config/schema.ts'
import { LocalAdminApi } from '../../main/admin/local-admin.ts'
import { ownIssuer } from '../../settings/signer-settings.ts'
import { VERSION } from '../../shared/lib/program-files.ts'
import { type Administration, withAdministration } from '../operator-database.ts'
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
      version: VERSION,
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
  const { socket, secret_file } = config.ca.signer
  if (socket === null || secret_file === null) return []
  const client = new SignerClient({ socketPath: socket, secret: readSharedSecret(path.resolve(secret_file)) })
  try {
    const { issuers } = await client.describe(SIGNER_TIMEOUT_MS)
    return issuers.flatMap(({ id, chain: [certificate] }) => (certificate ? [{ id, certificate }] : []))
  } finally {
    await client.close()
  }
}

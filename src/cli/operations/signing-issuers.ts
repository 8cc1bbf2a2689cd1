/** The issuers of the configured signer, for a command that runs without an instance. */

import { X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { readSharedSecret } from '../../../signer/protocol/shared-secret.ts'
import type { SigningIssuer } from '../../admin/context.ts'
import { SignerClient } from '../../ca/signer-client.ts'
import type { Config } from '../../config/schema.ts'
import { ownIssuer } from '../../settings/signer.ts'

/** A running signer answers within milliseconds. */
const TIMEOUT_MS = 5_000

/** @throws Error when a file cannot be read, or the signer does not answer */
export async function signingIssuers(config: Config): Promise<readonly SigningIssuer[]> {
  const own = ownIssuer(config)
  if (own) return [{ id: own.id, certificate: new X509Certificate(await readFile(own.certificateFile)).raw }]
  const { socket, secret_file } = config.ca.signer
  if (socket === null || secret_file === null) return []
  const client = new SignerClient({ socketPath: socket, secret: readSharedSecret(path.resolve(secret_file)) })
  try {
    const { issuers } = await client.describe(TIMEOUT_MS)
    return issuers.flatMap(({ id, chain: [certificate] }) => (certificate ? [{ id, certificate }] : []))
  } finally {
    await client.close()
  }
}

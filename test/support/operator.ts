/** The operator of a test service: its command line, and credentials of external account binding made with it. */

import { createHmac } from 'node:crypto'
import path from 'node:path'
import { type AcmeClient, base64url } from './acme-client.ts'
import { type CommandResult, runChancery } from './commands.ts'
import type { TestService } from './service.ts'

/** `chancery -c FILE …` with the configuration of the service. */
export function chancery(service: Pick<TestService, 'folder'>, ...words: string[]): Promise<CommandResult> {
  return runChancery(['-c', path.join(service.folder, 'config.yaml'), ...words])
}

/** Runs a command. @returns what it prints @throws Error when it does not end with 0 */
export async function operate(service: Pick<TestService, 'folder'>, ...words: string[]): Promise<string> {
  const { code, stdout, stderr } = await chancery(service, ...words)
  if (code !== 0) throw new Error(`chancery ${words.join(' ')} ended with ${code}: ${stderr}${stdout}`)
  return stdout
}

export interface EabCredential {
  kid: string
  hmacKey: Buffer
}

export async function createCredential(service: TestService, kid: string, ...words: string[]): Promise<EabCredential> {
  const printed = await operate(service, 'eab', 'create', '--kid', kid, ...words)
  const hmacKey = /^hmac_key {2}([A-Za-z0-9_-]{43})$/m.exec(printed)?.[1]
  if (hmacKey === undefined) throw new Error(`no key in: ${printed}`)
  return { kid, hmacKey: Buffer.from(hmacKey, 'base64url') }
}

const HASHES: Record<string, string> = { HS256: 'sha256', HS384: 'sha384', HS512: 'sha512' }

export interface BindingParts {
  alg?: string
  /** Laid over alg, kid and url; a member that is undefined is left out. */
  header?: Record<string, unknown>
  headerText?: string
  /** In place of the account's key. */
  payload?: string
}

/** The externalAccountBinding of a request by this client; right but for what `parts` says otherwise. */
export function bindingFor(client: AcmeClient, { kid, hmacKey }: EabCredential, parts: BindingParts = {}) {
  const alg = parts.alg ?? 'HS256'
  const header = { alg, kid, url: client.directory['newAccount'], ...parts.header }
  const encoded = {
    protected: base64url(parts.headerText ?? JSON.stringify(header)),
    payload: base64url(parts.payload ?? JSON.stringify(client.key.jwk)),
  }
  const mac = createHmac(HASHES[alg] ?? 'sha256', hmacKey)
    .update(`${encoded.protected}.${encoded.payload}`)
    .digest()
  return { ...encoded, signature: base64url(mac) }
}

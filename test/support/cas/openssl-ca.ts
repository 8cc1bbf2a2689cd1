/** A folder with a CA of OpenSSL, as docs/examples/openssl-ca.sh wants it, and the settings of the example module for it. */

import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'

const ROOT = path.resolve(import.meta.dirname, '../../../..')

export const COMMAND_CA = `ext:${path.join(ROOT, 'docs/examples/command-ca.js')}#CommandCa`
export const SIGNING_CA = `ext:${path.join(ROOT, 'docs/examples/signing-ca.js')}#SigningCa`
/** A module of the fixtures. */
export const caModule = (name: string) => `ext:${path.join(ROOT, 'test/fixtures/ca-modules/modules.mjs')}#${name}`

export interface OpenSslCa {
  folder: string
  certificate: string
  key: string
  /** `ca.extension_settings` of the example. */
  settings: { command: string[]; environment: Record<string, string>; trust_anchors: string[]; timeout_seconds: number }
  /** Hexadecimal serial numbers of what it has issued. */
  issued(): string[]
  /** Serial number and reason of what it was told to revoke. */
  revoked(): Record<string, string>
  remove(): void
}

export function makeOpenSslCa(): OpenSslCa {
  const folder = mkdtempSync(path.join(tmpdir(), 'chancery-openssl-ca-'))
  const [certificate, key] = [path.join(folder, 'ca.pem'), path.join(folder, 'ca.key')]
  const openssl = (...words: string[]) => execFileSync('openssl', words, { stdio: ['ignore', 'pipe', 'pipe'] })
  openssl('genpkey', '-algorithm', 'EC', '-pkeyopt', 'ec_paramgen_curve:P-256', '-out', key)
  openssl('req', '-x509', '-key', key, '-out', certificate, '-subj', '/CN=CA of a module', '-days', '30')
  const entries = (name: string) => (existsSync(path.join(folder, name)) ? readdirSync(path.join(folder, name)) : [])
  return {
    folder,
    certificate,
    key,
    settings: {
      command: [path.join(ROOT, 'docs/examples/openssl-ca.sh')],
      environment: { CA_FOLDER: folder },
      trust_anchors: [certificate],
      // Long enough for a busy machine.
      timeout_seconds: 60,
    },
    issued: () => entries('issued').map((name) => name.replace(/\.pem$/, '')),
    revoked: () =>
      Object.fromEntries(
        entries('revoked').map((name) => [name, readFileSync(path.join(folder, 'revoked', name), 'utf8').trim()]),
      ),
    remove: () => rmSync(folder, { recursive: true, force: true }),
  }
}

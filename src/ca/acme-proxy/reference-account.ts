/**
 * The account key that ACMEEH has left in `ca.acme_proxy.storage_path`. Read once: afterwards the
 * key is in the database, and the folder may be deleted.
 */

import { createPrivateKey, type KeyObject } from 'node:crypto'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { describeFileError } from '../../shared/lib/file-error.ts'

/**
 * @returns undefined when there is none
 * @throws Error in one sentence when there is one that cannot be read
 */
export function readReferenceKey(storagePath: string, directoryUrl: string, email: string): KeyObject | undefined {
  const { host, hostname } = new URL(directoryUrl)
  const accounts = [host, hostname, host.replace(':', '_')].map((name) => path.join('accounts', name, email))
  const folders = [...new Set(accounts), '.'].map((folder) => path.resolve(storagePath, folder))
  for (const folder of folders) {
    const file = path.join(folder, 'keys', `${email}.key`)
    const pem = readOptional(file)
    if (pem !== undefined) return keyOf(pem, file)
  }
  return undefined
}

function readOptional(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined
    throw new Error(`ca.acme_proxy.storage_path: ${file} cannot be read: ${describeFileError(error)}`)
  }
}

function keyOf(pem: string, file: string): KeyObject {
  try {
    return createPrivateKey(pem)
  } catch {
    // The parser's message may quote the file.
    throw new Error(`ca.acme_proxy.storage_path: ${file} is no private key in PEM without a passphrase`)
  }
}

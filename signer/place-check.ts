/**
 * Where the daemon's files are to be, looked at without making any (`--validate-only`): a folder that is there has to let the
 * signer in, and one that is not may be systemd's to make at the start.
 */

import { accessSync, constants, existsSync } from 'node:fs'
import path from 'node:path'
import type { SignerConfig } from './config.ts'
import { openCrlNumbers } from './crl-numbers.ts'
import { requireShortPath, requireSocketFolder } from './server.ts'
import { atKey } from './start-failure.ts'

const { R_OK, W_OK, X_OK } = constants

/** @returns what the start will need and is not there yet. @throws Error in one sentence: what would keep it from starting */
export async function inspectPlaces({ socket, audit, crl_numbers_file }: SignerConfig): Promise<string[]> {
  const notes: string[] = []
  await atKey('socket', () => {
    requireShortPath(socket)
    if (existsSync(path.dirname(socket))) requireSocketFolder(socket)
  })

  const auditFolder = path.dirname(audit.file)
  if (existsSync(audit.file)) await atKey('audit.file', () => accessSync(audit.file, R_OK | W_OK))
  else if (existsSync(auditFolder)) await atKey('audit.file', () => accessSync(auditFolder, W_OK | X_OK))
  else notes.push(`audit.file: ${auditFolder} is not there yet; the start needs it, owned by the user of the signer`)

  await atKey(crl_numbers_file === undefined ? 'audit.file' : 'crl_numbers_file', () =>
    openCrlNumbers(crl_numbers_file ?? `${audit.file}.crl-numbers`),
  )
  return notes
}

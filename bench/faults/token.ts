/** A SoftHSM token with the issuer's key, where SoftHSM is installed; else the signer's key is in a file. */

import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'

const LIBRARIES = ['/usr/lib/softhsm/libsofthsm2.so', '/usr/lib64/softhsm/libsofthsm2.so']

/** The PKCS #11 library; undefined where the library, or what makes it usable from Node.js, is missing. */
export const SOFTHSM = hasPkcs11() ? LIBRARIES.find((file) => existsSync(file)) : undefined

function hasPkcs11(): boolean {
  try {
    createRequire(import.meta.url).resolve('graphene-pk11')
    return true
  } catch {
    // An optional package, which npm leaves out where it cannot be compiled.
    return false
  }
}

export interface Token {
  folder: string
  /** Shows a process this token and no other. */
  env: Record<string, string>
  /** The member `key` of an issuer. */
  key: object
}

const PIN = 'stand-4711'
const LABEL = 'issuing'
const ID = '01a2'

/** Puts the key of a file into a new token below the folder. */
export function makeToken(folder: string, library: string, keyFile: string): Token {
  const tokens = path.join(folder, 'tokens')
  const [configuration, pinFile] = [path.join(folder, 'softhsm2.conf'), path.join(folder, 'pin')]
  mkdirSync(tokens, { recursive: true })
  writeFileSync(configuration, `directories.tokendir = ${tokens}\nobjectstore.backend = file\nlog.level = ERROR\n`)
  writeFileSync(pinFile, `${PIN}\n`, { mode: 0o600 })
  const env = { SOFTHSM2_CONF: configuration }
  const run = (...words: string[]) =>
    execFileSync('softhsm2-util', words, { env: { ...process.env, ...env }, stdio: ['ignore', 'ignore', 'pipe'] })
  run('--init-token', '--free', '--label', 'stand', '--so-pin', PIN, '--pin', PIN)
  run('--import', keyFile, '--token', 'stand', '--label', LABEL, '--id', ID, '--pin', PIN)
  rmSync(keyFile)
  return { folder: tokens, env, key: { pkcs11: { library, token: 'stand', pin_file: pinFile, label: LABEL, id: ID } } }
}

/** SoftHSM tokens for tests: each in a folder of its own, with its own configuration, gone at the end. */

import { execFileSync } from 'node:child_process'
import type { KeyObject } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'

export const SOFTHSM_LIBRARY =
  ['/usr/lib/softhsm/libsofthsm2.so', '/usr/lib64/softhsm/libsofthsm2.so'].find((file) => existsSync(file)) ??
  '/usr/lib/softhsm/libsofthsm2.so'

export const PIN = '837465'
const SO_PIN = '99887766'

export interface TestToken {
  folder: string
  /** What a process needs to see these tokens and no others. */
  env: { SOFTHSM2_CONF: string }
  tokenFolder: string
  pinFile: string
  /** @param id hexadecimal */
  importKey(key: KeyObject, label: string, id: string, tokenLabel?: string): void
  addToken(label: string): void
  remove(): void
}

export function makeToken(label = 'ca'): TestToken {
  const folder = mkdtempSync(path.join(tmpdir(), 'softhsm-'))
  const tokenFolder = path.join(folder, 'tokens')
  const conf = path.join(folder, 'softhsm2.conf')
  mkdirSync(tokenFolder)
  writeFileSync(conf, `directories.tokendir = ${tokenFolder}\nobjectstore.backend = file\nlog.level = ERROR\n`)
  const env = { SOFTHSM2_CONF: conf }
  const run = (...args: string[]) =>
    execFileSync('softhsm2-util', args, { env: { ...process.env, ...env }, stdio: ['ignore', 'ignore', 'pipe'] })
  const pinFile = path.join(folder, 'pin')
  writeFileSync(pinFile, `${PIN}\n`, { mode: 0o600 })

  const token: TestToken = {
    folder,
    env,
    tokenFolder,
    pinFile,
    addToken: (name) => void run('--init-token', '--free', '--label', name, '--so-pin', SO_PIN, '--pin', PIN),
    importKey(key, name, id, tokenLabel = label) {
      const file = path.join(folder, 'import.pem')
      writeFileSync(file, key.export({ format: 'pem', type: 'pkcs8' }), { mode: 0o600 })
      run('--import', file, '--token', tokenLabel, '--label', name, '--id', id, '--pin', PIN)
      rmSync(file)
    },
    remove: () => rmSync(folder, { recursive: true, force: true }),
  }
  token.addToken(label)
  return token
}

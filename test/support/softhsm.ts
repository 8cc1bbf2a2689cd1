/** SoftHSM tokens for tests: each in a folder of its own, with its own configuration, gone at the end. */

import { execFileSync } from 'node:child_process'
import type { KeyObject } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'

export const SOFTHSM_LIBRARY =
  ['/usr/lib/softhsm/libsofthsm2.so', '/usr/lib64/softhsm/libsofthsm2.so'].find((file) => existsSync(file)) ??
  '/usr/lib/softhsm/libsofthsm2.so'

/** Not of digits alone: six of them stand by chance in the ids and times of a long log. */
export const PIN = 'pin-837465'
const SO_PIN = '99887766'

export interface TestToken {
  folder: string
  /** A process with this variable sees these tokens and no others. */
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

const ROOT = path.resolve(import.meta.dirname, '../../..')

export type Fault = 'removed' | 'lost' | 'crash' | 'no-init' | 'hang' | 'last-try' | 'no-hash'

/** The library of `test/fixtures/pkcs11-faults.cc` around SoftHSM. */
export interface FaultyLibrary {
  file: string
  env: { FAULTS_LIBRARY: string; FAULTS_FOLDER: string }
  set(fault: Fault): void
  clear(fault: Fault): void
  /** Calls of C_Login so far at which the token looked at the PIN. */
  logins(): number
  /** The most signatures that were under way at once. */
  mostParallel(): number
}

/** Compiled once for all tokens of a process: it takes seconds. */
let compiled: Buffer | undefined

function compileTo(file: string): Buffer {
  const source = path.join(ROOT, 'test/fixtures/pkcs11-faults.cc')
  const headers = path.join(ROOT, 'node_modules/pkcs11js/includes/pkcs11')
  execFileSync('g++', ['-std=c++17', '-shared', '-fPIC', '-I', headers, '-o', file, source, '-ldl'])
  return readFileSync(file)
}

export function buildFaultyLibrary({ folder }: TestToken): FaultyLibrary {
  const file = path.join(folder, 'faults.so')
  compiled ??= compileTo(file)
  writeFileSync(file, compiled)
  const faults = path.join(folder, 'faults')
  mkdirSync(faults)
  const at = (name: string) => path.join(faults, name)
  const textOf = (name: string) => (existsSync(at(name)) ? readFileSync(at(name), 'utf8') : '')
  return {
    file,
    env: { FAULTS_LIBRARY: SOFTHSM_LIBRARY, FAULTS_FOLDER: faults },
    set: (fault) => writeFileSync(at(fault), ''),
    clear: (fault) => rmSync(at(fault), { force: true }),
    logins: () => textOf('logins').length,
    mostParallel: () => Number(textOf('parallel')),
  }
}

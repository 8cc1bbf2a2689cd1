/** What services with a key in a token share: the token, the library that fails on demand, and their configuration. */

import { createPrivateKey } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { ensureDevCa } from '../../src/dev/dev-ca.ts'
import { buildFaultyLibrary, type FaultyLibrary, makeToken, PIN } from '../support/hosts/softhsm.ts'

export interface ServiceToken {
  faults: FaultyLibrary
  tokenFolder: string
  /** The section `ca.hsm`. */
  hsm: Record<string, unknown>
  remove(): void
}

/** A token that holds the key of a development CA. */
export async function serviceToken(): Promise<ServiceToken> {
  const token = makeToken()
  const faults = buildFaultyLibrary(token)
  // What the vendor's library reads from the environment reaches the signer through the service.
  Object.assign(process.env, token.env, faults.env)
  const folder = mkdtempSync(path.join(tmpdir(), 'hsm-ca-'))
  const { files } = await ensureDevCa(folder, new Date())
  token.importKey(createPrivateKey(readFileSync(files.intermediateKey)), 'issuing', '01a2')
  rmSync(files.intermediateKey)
  const hsm = {
    pkcs11_library: faults.file,
    token_label: 'ca',
    pin: PIN,
    key_label: 'issuing',
    key_id: '01a2',
    key_type: 'ec',
    issuer_cert_path: files.intermediate,
    chain_path: files.root,
    session_pool_size: 8,
  }
  return {
    faults,
    tokenFolder: token.tokenFolder,
    hsm,
    remove() {
      rmSync(folder, { recursive: true, force: true })
      token.remove()
    },
  }
}

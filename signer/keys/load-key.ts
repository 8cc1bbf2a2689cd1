/** Loads an issuer's key from a file or a token, after reading its secret. */

import { oncePerKey } from '../../src/shared/lib/caching.ts'
import type { SignatureAlgorithm } from '../../src/shared/pki/algorithms.ts'
import { parseSpki } from '../../src/shared/pki/spki.ts'
import type { KeyConfig } from '../config.ts'
import { loadFileKey } from './file-key.ts'
import { openTokenKey } from './pkcs11/key.ts'
import { loadLibrary, type Pkcs11Library } from './pkcs11/library.ts'
import { readSecret, type SecretSource } from './secret.ts'
import type { KeyState, SigningKey } from './signing-key.ts'

export interface IssuerKeyFacts {
  algorithm: SignatureAlgorithm
  /** DER of the SubjectPublicKeyInfo of the issuer certificate. */
  spki: Buffer
  onStateChange(state: KeyState): void
}

/** Loads the keys of one process. Keys in tokens of one PKCS #11 library share it. */
export class KeyLoader {
  readonly #libraries = new Map<string, Promise<Pkcs11Library>>()
  readonly #library = oncePerKey(loadLibrary, this.#libraries)

  /** @throws Error in one sentence */
  async load(config: KeyConfig, secret: string | undefined, issuer: IssuerKeyFacts): Promise<SigningKey> {
    const { file, pkcs11 } = config
    if (pkcs11 === undefined) return loadFileKey({ file: file!, passphrase: secret, algorithm: issuer.algorithm })
    requireType(pkcs11.type, issuer.spki)
    if (pkcs11.login && secret === undefined) {
      throw new Error('the token needs a PIN: set pin_file, pin_env or pin_prompt, or login: false')
    }
    return openTokenKey({
      library: await this.#library(pkcs11.library),
      token: { label: pkcs11.token, slot: pkcs11.slot },
      key: { label: pkcs11.label, id: pkcs11.id },
      pin: pkcs11.login ? secret : undefined,
      sessions: pkcs11.sessions,
      sessionWaitMs: pkcs11.session_wait * 1000,
      ...issuer,
    })
  }

  /** Call it after closing the keys. */
  async close(timeoutMs: number): Promise<void> {
    for (const library of this.#libraries.values()) await (await library).close(timeoutMs)
  }
}

/**
 * Reads passphrase or PIN. Call it for one key at a time, since each may prompt on the terminal.
 * @throws Error
 */
export function readKeySecret(config: KeyConfig): Promise<string | undefined> {
  const [source, what] = secretOf(config)
  return readSecret(source, what)
}

function secretOf(config: KeyConfig): [SecretSource, string] {
  if (config.pkcs11 === undefined) {
    const { file: keyFile, passphrase_file: file, passphrase_env: env, passphrase_prompt: prompt } = config
    return [{ file, env, prompt }, `passphrase of ${keyFile}`]
  }
  const { pin_file: file, pin_env: env, pin_prompt: prompt, token, slot } = config.pkcs11
  return [{ file, env, prompt }, `PIN of token ${token ?? `in slot ${slot}`}`]
}

function requireType(wanted: string | undefined, spki: Buffer): void {
  const { kind } = parseSpki(spki)
  if (wanted === undefined || wanted === kind) return
  throw new Error(`the key is configured as ${wanted}, the issuer certificate holds a key of kind ${kind}`)
}

/** The transparency logs that certificates are submitted to. */

import { createPublicKey, type KeyObject } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { Config } from '../config/schema.ts'
import type { TransparencyLog } from '../services/events/transparency.ts'

/** @throws Error in a sentence when a key cannot be read */
export function transparencyLogs({ ct_logging }: Config): TransparencyLog[] {
  if (!ct_logging.enabled) return []
  return ct_logging.logs.map(({ url, public_key_path, timeout_seconds }) => ({
    url: url.replace(/\/+$/, ''),
    key: public_key_path === null ? undefined : readKey(public_key_path),
    timeoutMs: timeout_seconds * 1000,
  }))
}

function readKey(file: string): KeyObject {
  try {
    return createPublicKey(readFileSync(file))
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    throw new Error(`ct_logging.logs: cannot read a public key from ${file}: ${code ?? message}`)
  }
}

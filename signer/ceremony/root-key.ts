/** The key of a root, opened for one signature. */

import type { KeyConfig } from '../config.ts'
import { type IssuerKeyFacts, KeyLoader, readKeySecret } from '../keys/load-key.ts'

const KEY_CLOSE_MS = 5000

/** Reads PIN or passphrase, signs, and closes the key. @throws Error in one sentence */
export async function signOnce(config: KeyConfig, facts: IssuerKeyFacts, tbs: Buffer): Promise<Buffer> {
  const loader = new KeyLoader()
  try {
    const key = await loader.load(config, await readKeySecret(config), facts)
    try {
      return await key.sign(tbs)
    } finally {
      await key.close()
    }
  } finally {
    await loader.close(KEY_CLOSE_MS)
  }
}

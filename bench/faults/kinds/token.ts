/** The hardware security module is gone: the folder of a SoftHSM token, which holds the issuer's key. */

import { renameSync } from 'node:fs'
import { SOFTHSM } from '../token.ts'
import type { Kinds } from './kind.ts'

export const TOKEN_KINDS: Kinds = {
  'lost-token': {
    about: 'the token with the issuer’s key is gone, and comes back',
    lasts: [3, 20],
    impossible: SOFTHSM === undefined ? 'needs SoftHSM (Debian: softhsm2)' : undefined,
    begin({ tokenFolder = '' }) {
      const away = `${tokenFolder}.away`
      renameSync(tokenFolder, away)
      return { target: 'the token', end: () => renameSync(away, tokenFolder) }
    },
  },
}

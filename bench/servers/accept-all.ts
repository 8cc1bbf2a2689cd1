/** The validator module that servers of the bench's own get when the challenge is `accept-all-01`. */

import path from 'node:path'
import { OWN_ROOT } from './build.ts'

/** The challenge that the module meets. */
export const ACCEPT_ALL = 'accept-all-01'

export const ACCEPT_ALL_MODULE = path.join(OWN_ROOT, 'bench/accept-all.mjs')

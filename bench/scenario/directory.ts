/** `directory`: the object that every client begins with (RFC 8555 §7.1.1). */

import { parseObject } from '../client/acme.ts'
import { Failure } from '../client/failure.ts'
import type { Scenario } from './scenario.ts'

/** What a certificate cannot be had without. */
const NEEDED = ['newNonce', 'newAccount', 'newOrder']

/** A text that was found right is right again: to parse it takes the generator 4 µs, to compare it next to nothing. */
export function directoryRead(): Scenario {
  let good = ''
  return {
    summary: 'GET the directory',
    usesAccounts: false,
    floor: undefined,
    async operate(client, { directoryUrl }) {
      const response = await client.get('directory', directoryUrl)
      if (response.body === good) return
      const directory = parseObject(response)
      const missing = NEEDED.find((name) => typeof directory[name] !== 'string')
      if (missing !== undefined) throw new Failure('check-directory', `the directory has no ${missing}`)
      good = response.body
    },
  }
}

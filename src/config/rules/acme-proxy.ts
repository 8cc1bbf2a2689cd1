/** Rules for the backend `acme_proxy`: its challenge handler, and its account. */

import { isBase64url } from '../../shared/lib/encoding.ts'
import { usesBackend } from '../backends.ts'
import { HANDLER_METHODS, handlerReferenceOf, readChallengeHandler } from '../challenge-handler.ts'
import type { Config } from '../schema.ts'
import { not, type Rule } from './rule.ts'

const proxied = (c: Config) => usesBackend(c, 'acme_proxy')
const HANDLER_READS = ['ca.backend', 'ca.acme_proxy.challenge_handler']

const wrongHandler = (handler: string | null) => {
  const reference = handler === null ? undefined : handlerReferenceOf(handler)
  return typeof reference === 'string' ? reference : undefined
}

export const ACME_PROXY: readonly Rule[] = [
  {
    path: 'ca.acme_proxy.challenge_handler',
    reads: ['ca.backend'],
    check: (c) => (proxied(c) ? wrongHandler(c.ca.acme_proxy.challenge_handler) : undefined),
  },
  {
    path: 'ca.acme_proxy.challenge_handler_config',
    reads: HANDLER_READS,
    check(c) {
      const { challenge_handler: handler, challenge_handler_config: config } = c.ca.acme_proxy
      if (!proxied(c) || handler === null || wrongHandler(handler) !== undefined) return undefined
      const read = readChallengeHandler(handler, config)
      return typeof read === 'string' ? read : undefined
    },
  },
  {
    path: 'ca.acme_proxy.challenge_type',
    reads: HANDLER_READS,
    check(c) {
      const { challenge_handler: handler, challenge_type: type } = c.ca.acme_proxy
      const method = HANDLER_METHODS[handler ?? '']
      if (!proxied(c) || method === undefined || method === type) return undefined
      return `is ${type}, but the handler ${handler} answers ${method}`
    },
  },
  not(
    'ca.acme_proxy.eab_hmac_key',
    ['ca.backend', 'ca.acme_proxy.eab_kid'],
    (c) => proxied(c) && (c.ca.acme_proxy.eab_kid === null) !== (c.ca.acme_proxy.eab_hmac_key === null),
    'belongs together with ca.acme_proxy.eab_kid; set both or none',
  ),
  not(
    'ca.acme_proxy.eab_hmac_key',
    ['ca.backend'],
    (c) => proxied(c) && !isBase64url((c.ca.acme_proxy.eab_hmac_key ?? '').replace(/=+$/, '')),
    'is not base64url',
  ),
]

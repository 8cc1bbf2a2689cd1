/** POST key-change: a new key for an account, proven by both keys (RFC 8555 §7.3.5). */

import { z } from 'zod/v4'
import type { JsonObject } from '../shared/lib/encoding.ts'
import { isSpellingOf, parseAccountKey } from '../shared/protocol/jwk.ts'
import { type InnerJws, parseInnerJws, parsePayload } from '../shared/protocol/jws.ts'
import { Problem } from '../shared/protocol/problem.ts'
import { acmeEndpoint, chargeSignature, requireSignature } from './endpoint.ts'
import { renderAccount } from './resources.ts'

const KeyChange = z.object({ account: z.string(), oldKey: z.record(z.string(), z.unknown()) })

export const keyChange = acmeEndpoint({
  resource: 'keyChange',
  signedBy: 'kid',
  // The payload is a JWS. The handler parses it from the bytes that the outer signature covers.
  payload: { schema: z.object({}) },
  async handle({ signer, jws, address }, { registration, urls, settings, limits, budget }) {
    const inner = parseInnerJws(jws.payload as Buffer, settings.algorithms)
    // Also for an account that signs well from there: the inner key is another one.
    budget.require(address)
    const newKey = parseAccountKey(inner.header.jwk, settings.accountKeys)
    try {
      requireSignature(inner, newKey, settings.algorithms)
    } catch (error) {
      chargeSignature(signer, address, { budget })
      throw error
    }
    if (inner.header.url !== jws.header.url) throw new Problem('malformed', 'the inner and the outer url differ')

    const { account, oldKey } = readKeyChange(inner)
    if (account !== urls.numbered('account', signer.account.id))
      throw new Problem('malformed', 'the account of the inner payload is not the account that signed')
    if (!isSpellingOf(oldKey, signer.key))
      throw new Problem('malformed', 'oldKey is not the current key of the account')

    const counted = limits.charge([{ category: 'key_change', subject: signer.account.id }])
    if (counted) await counted
    const changed = await registration.changeKey(signer, newKey)
    if ('taken' in changed)
      throw new Problem('malformed', 'another account has this key', {
        status: 409,
        location: urls.numbered('account', changed.taken),
      })
    return { status: 200, body: renderAccount(changed, urls), location: urls.numbered('account', changed.id) }
  },
})

function readKeyChange(inner: InnerJws): { account: string; oldKey: JsonObject } {
  const parsed = KeyChange.safeParse(parsePayload(inner.payload))
  if (!parsed.success) throw new Problem('malformed', 'the inner payload must have account, a URL, and oldKey, a JWK')
  return parsed.data
}

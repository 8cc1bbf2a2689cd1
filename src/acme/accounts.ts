/** Accounts: new-account, account and key-change (RFC 8555 §7.3). */

import * as z from 'zod/v4'
import type { Account } from '../domain/records.ts'
import type { KnownAccount } from '../services/account-cache.ts'
import { anyObject, boundedList } from '../shared/lib/bounded.ts'
import type { JsonObject } from '../shared/lib/encoding.ts'
import { isSpellingOf, parseAccountKey } from '../shared/protocol/jwk.ts'
import { type InnerJws, parseInnerJws, parsePayload } from '../shared/protocol/jws.ts'
import { Problem } from '../shared/protocol/problem.ts'
import type { Urls } from '../shared/protocol/urls.ts'
import { acmeEndpoint, optional, Text } from './endpoint.ts'
import { chargeSignature, requireSignature } from './gate.ts'

/** `checkContacts` refuses more than ten by its own problem type. */
const Contacts = boundedList(Text, 100)

/** Registration, or finding an account by its key (RFC 8555 §7.3.1). */
export const newAccount = acmeEndpoint({
  resource: 'newAccount',
  signedBy: 'jwk',
  limit: 'new_account',
  payload: {
    schema: z.object({
      contact: optional(Contacts),
      termsOfServiceAgreed: optional(z.boolean()),
      onlyReturnExisting: optional(z.boolean()),
      // Registration validates it, because it knows the credentials (RFC 8555 §7.3.4).
      externalAccountBinding: optional(z.unknown()),
    }),
  },
  async handle({ signer, payload, jws, visit, address, now }, { registration, urls, settings }) {
    await visit?.charge()
    const request = {
      key: signer,
      contacts: payload.contact ?? [],
      termsAgreed: payload.termsOfServiceAgreed ?? false,
      onlyReturnExisting: payload.onlyReturnExisting ?? false,
      externalAccountBinding: payload.externalAccountBinding,
      url: jws.header.url,
      address,
    }
    const { created, account } = await registration.register(request, now)
    const terms = settings.directoryMeta.termsOfService
    return {
      status: created ? 201 : 200,
      body: renderAccount(account, urls),
      location: urls.numbered('account', account.id),
      made: { accountId: account.id },
      ...(terms !== undefined && { links: [`<${terms}>;rel="terms-of-service"`] }),
    }
  },
})

/** Fetches, updates contacts, deactivates (RFC 8555 §7.3.2, §7.3.6). */
export const account = acmeEndpoint({
  resource: 'account',
  signedBy: 'kid',
  payload: {
    schema: z.object({ contact: optional(Contacts), status: optional(Text) }),
    orFetch: true,
  },
  async handle({ signer, id, payload }, { registration, urls, limits }) {
    requireOwnAccount(signer, id)
    const { status, contact } = payload ?? {}
    const isUpdate = status !== 'deactivated' && contact !== undefined
    // First of all: an update can cost MX look-ups and a row lock.
    const counted = isUpdate ? limits.charge([{ category: 'account_update', subject: id }]) : undefined
    if (counted) await counted
    const changed =
      status === 'deactivated'
        ? await registration.deactivate(signer)
        : contact !== undefined
          ? await registration.updateContacts(signer, contact)
          : await registration.read(signer)
    return { status: 200, body: renderAccount(changed, urls), location: urls.numbered('account', id) }
  },
})

export function requireOwnAccount(signer: KnownAccount, accountId: string): void {
  if (signer.account.id !== accountId) throw new Problem('unauthorized', 'the request is signed by another account')
}

const KeyChange = z.object({ account: Text, oldKey: anyObject() })

/** A new key for an account, proven by both keys (RFC 8555 §7.3.5). */
export const keyChange = acmeEndpoint({
  resource: 'keyChange',
  signedBy: 'kid',
  // The payload is a JWS. The handler parses it from the bytes that the outer signature covers.
  payload: { schema: z.object({}) },
  async handle({ signer, jws, address, accountPath }, { registration, urls, settings, limits, budget }) {
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
    const { id } = signer.account
    if (account !== urls.account(id) && account !== urls.account(id, accountPath))
      throw new Problem('malformed', 'the account of the inner payload is not the account that signed')
    if (!isSpellingOf(oldKey, signer.key))
      throw new Problem('malformed', 'oldKey is not the current key of the account')

    const counted = limits.charge([{ category: 'key_change', subject: signer.account.id }])
    if (counted) await counted
    const changed = await registration.changeKey(signer, newKey)
    if ('taken' in changed)
      throw new Problem('malformed', `${changed.taken === id ? 'the' : 'another'} account has this key already`, {
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

/** RFC 8555 §7.1.2. */
function renderAccount(account: Account, urls: Urls): string {
  return JSON.stringify({
    status: account.status,
    contact: account.contacts.length > 0 ? account.contacts : undefined,
    termsOfServiceAgreed: account.termsAgreed || undefined,
    externalAccountBinding: account.externalAccountBinding,
    orders: urls.numbered('accountOrders', account.id),
  })
}

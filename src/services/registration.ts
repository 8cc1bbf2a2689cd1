/** Accounts: registration, update, deactivation, key change (RFC 8555 §7.3). */

import { type ContactPolicy, checkContacts } from '../domain/contact.ts'
import type { Account } from '../domain/records.ts'
import { uuidv7 } from '../lib/uuid.ts'
import type { AccountKey } from '../protocol/jwk.ts'
import { Problem } from '../protocol/problem.ts'
import type { AccountStore } from '../store/account-store.ts'
import type { AccountCache, KnownAccount } from './account-cache.ts'
import { StaleAccountError } from './stale-account.ts'

export interface RegistrationPolicy {
  contacts: ContactPolicy
  /** `tos.url`, when there are terms. */
  termsUrl: string | undefined
  termsRequired: boolean
  allowContactUpdate: boolean
  allowDeactivation: boolean
}

export interface RegistrationRequest {
  key: AccountKey
  contacts: readonly string[]
  termsAgreed: boolean
  onlyReturnExisting: boolean
}

export interface RegistrationEvents {
  registered(account: Account): void
  deactivated(account: Account): void
  keyChanged(account: Account): void
}

export interface Registration {
  /** @throws Problem accountDoesNotExist, userActionRequired, invalidContact, unsupportedContact, unauthorized 401 */
  register(request: RegistrationRequest, now: Date): Promise<{ created: boolean; account: Account }>
  /** The account as the database has it now. @throws StaleAccountError when that is not what was cached */
  current(known: KnownAccount): Promise<Account>
  updateContacts(known: KnownAccount, contacts: readonly string[]): Promise<Account>
  deactivate(known: KnownAccount): Promise<Account>
  /** @returns the account with its new key, or the id of the account that has that key already. */
  changeKey(known: KnownAccount, key: AccountKey): Promise<Account | { taken: string }>
}

export function createRegistration(
  store: AccountStore,
  cache: AccountCache,
  policy: RegistrationPolicy,
  events: RegistrationEvents,
): Registration {
  /** An update that found nothing to update: either the cached account was wrong, or the store lost a race. */
  function updated(account: Account | undefined): Account {
    if (!account) throw new StaleAccountError()
    cache.forget(account.id)
    return account
  }

  return {
    async register({ key, contacts, termsAgreed, onlyReturnExisting }, now) {
      if (onlyReturnExisting) {
        const existing = await store.findByThumbprint(key.thumbprint)
        if (!existing) throw new Problem('accountDoesNotExist', 'there is no account with this key')
        return { created: false, account: requireValid(existing) }
      }
      const refusal = newAccountRefusal(contacts, termsAgreed, policy)
      if (refusal) {
        // What is refused to a new account does not concern one that exists (RFC 8555 §7.3.1).
        const existing = await store.findByThumbprint(key.thumbprint)
        if (!existing) throw refusal
        return { created: false, account: requireValid(existing) }
      }
      const { created, account } = await store.create({
        id: uuidv7(now.getTime()),
        thumbprint: key.thumbprint,
        jwk: key.jwk,
        contacts: checkContacts(contacts, policy.contacts),
        termsAgreed,
      })
      cache.remember(requireValid(account), key)
      if (created) events.registered(account)
      return { created, account }
    },

    async current({ requester }) {
      const account = await store.find(requester.accountId)
      if (account?.status !== 'valid' || account.keyVersion !== requester.keyVersion) throw new StaleAccountError()
      return account
    },

    async updateContacts({ requester }, contacts) {
      if (!policy.allowContactUpdate) throw new Problem('unauthorized', 'contacts cannot be changed on this server')
      return updated(await store.updateContacts(requester, checkContacts(contacts, policy.contacts)))
    },

    async deactivate({ requester }) {
      if (!policy.allowDeactivation)
        throw new Problem('unauthorized', 'accounts cannot be deactivated by their holders on this server')
      const account = updated(await store.deactivate(requester))
      events.deactivated(account)
      return account
    },

    async changeKey({ requester }, { jwk, thumbprint }) {
      const result = await store.changeKey(requester, { jwk, thumbprint })
      if (result && 'taken' in result) return result
      const account = updated(result)
      events.keyChanged(account)
      return account
    },
  }
}

/** RFC 8555 §7.3.6: no request signed by the key of a deactivated account is accepted, not even one to find it. */
function requireValid(account: Account): Account {
  if (account.status !== 'valid')
    throw new Problem('unauthorized', `the account of this key is ${account.status}`, { status: 401 })
  return account
}

function newAccountRefusal(
  contacts: readonly string[],
  termsAgreed: boolean,
  policy: RegistrationPolicy,
): Problem | undefined {
  if (policy.termsRequired && !termsAgreed) {
    return new Problem(
      'userActionRequired',
      `agree to the terms of service at ${policy.termsUrl} (termsOfServiceAgreed: true)`,
      {
        links: [`<${policy.termsUrl}>;rel="terms-of-service"`],
      },
    )
  }
  try {
    checkContacts(contacts, policy.contacts)
    return undefined
  } catch (error) {
    if (error instanceof Problem) return error
    throw error
  }
}

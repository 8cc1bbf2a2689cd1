/** Accounts: registration, update, deactivation, key change (RFC 8555 §7.3). */

import { type ContactPolicy, checkContacts } from '../domain/contact.ts'
import type { Account } from '../domain/records.ts'
import { uuidv7 } from '../shared/lib/uuid.ts'
import type { AccountKey } from '../shared/protocol/jwk.ts'
import { Problem } from '../shared/protocol/problem.ts'
import type { AccountStore } from '../store/account-store.ts'
import type { AccountCache, KnownAccount } from './account-cache.ts'
import type { ExternalAccounts, ProvenBinding } from './external-accounts.ts'
import type { RequireMailDomains } from './mail-domains.ts'
import { StaleAccountError } from './stale-account.ts'

export interface RegistrationPolicy {
  contacts: ContactPolicy
  /** `tos.url`, when there are terms. */
  termsUrl: string | undefined
  termsRequired: boolean
  /** `tos.version`; undefined where an agreement is good for ever. */
  termsVersion: string | undefined
  /** Where people find how to agree. */
  termsInstructionsUrl: string | undefined
  allowContactUpdate: boolean
  allowDeactivation: boolean
}

export interface RegistrationRequest {
  key: AccountKey
  contacts: readonly string[]
  termsAgreed: boolean
  onlyReturnExisting: boolean
  /** The member as it came; undefined when there was none. */
  externalAccountBinding: unknown
  /** Of the request. */
  url: string
}

export interface RegistrationEvents {
  registered(account: Account, eabKid: string | undefined): void
  deactivated(account: Account): void
  keyChanged(account: Account): void
}

export interface Registration {
  /**
   * @throws Problem accountDoesNotExist, userActionRequired, invalidContact, unsupportedContact, externalAccountRequired,
   *   unauthorized 401, and what is wrong with the external account binding
   */
  register(request: RegistrationRequest, now: Date): Promise<{ created: boolean; account: Account }>
  /**
   * Whether the account has agreed to the terms that are in force (RFC 8555 §7.3.3). Undefined, without a wait, for one
   * that has as far as the cache knows.
   * @throws Problem userActionRequired
   */
  requireCurrentTerms(known: KnownAccount): Promise<void> | undefined
  /** As it is now, which another thread may have changed since it was cached. @throws StaleAccountError */
  read(known: KnownAccount): Promise<Account>
  updateContacts(known: KnownAccount, contacts: readonly string[]): Promise<Account>
  deactivate(known: KnownAccount): Promise<Account>
  /** @returns the account with its new key, or the id of the account that has that key already. */
  changeKey(known: KnownAccount, key: AccountKey): Promise<Account | { taken: string }>
}

export function createRegistration(
  store: AccountStore,
  externalAccounts: ExternalAccounts,
  cache: AccountCache,
  /** Undefined where `email.validate_mx` is off. */
  requireMailDomains: RequireMailDomains | undefined,
  policy: RegistrationPolicy,
  events: RegistrationEvents,
): Registration {
  /** An update that found nothing to update: either the cached account was wrong, or the store lost a race. */
  function updated(account: Account | undefined): Account {
    if (!account) throw new StaleAccountError()
    cache.forget(account.id)
    return account
  }

  interface Admitted {
    contacts: readonly string[]
    termsAgreed: boolean
    binding: ProvenBinding | undefined
  }

  /** What a new account must bring. @throws Problem */
  async function admit({
    contacts,
    termsAgreed,
    externalAccountBinding,
    key,
    url,
  }: RegistrationRequest): Promise<Admitted> {
    requireTerms(termsAgreed, policy)
    const checked = checkContacts(contacts, policy.contacts)
    const binding = await externalAccounts.prove(externalAccountBinding, { url, key })
    // Last of all: who would be refused anyway has nobody asked.
    if (requireMailDomains) await requireMailDomains(checked)
    return { contacts: checked, termsAgreed, binding }
  }

  async function create({ thumbprint, jwk }: AccountKey, { contacts, termsAgreed, binding }: Admitted, now: Date) {
    const { termsVersion } = policy
    const agreed = { termsAgreed, ...(termsAgreed && termsVersion !== undefined && { termsVersion }) }
    const account = { id: uuidv7(now.getTime()), thumbprint, jwk, contacts, ...agreed }
    if (!binding) return store.create(account)
    const created = await externalAccounts.register(account, binding)
    const found = await store.findByThumbprint(thumbprint)
    if (!found) throw externalAccounts.lostCredential(binding)
    return { created, account: found }
  }

  const hasAgreed = ({ termsVersion }: Account) =>
    policy.termsVersion === undefined || termsVersion === policy.termsVersion

  /** Registering again is the protocol's one way to say yes to new terms; an update cannot (RFC 8555 §7.3.2). */
  async function renewAgreement(account: Account, { termsAgreed }: RegistrationRequest): Promise<Account> {
    if (!termsAgreed || policy.termsVersion === undefined || hasAgreed(account)) return account
    const agreed = await store.agreeToTerms(account.id, policy.termsVersion)
    cache.forget(account.id)
    return agreed ?? account
  }

  /** The cached account has not agreed; it may have done so through another thread since. */
  async function requireAgreement({ account: { id } }: KnownAccount): Promise<void> {
    const current = await store.find(id)
    if (!current || !hasAgreed(current)) throw termsProblem('the terms of service have changed', policy)
    cache.forget(id)
  }

  return {
    async register(request, now) {
      const { key } = request
      if (request.onlyReturnExisting) {
        const existing = await store.findByThumbprint(key.thumbprint)
        if (!existing) throw new Problem('accountDoesNotExist', 'there is no account with this key')
        return { created: false, account: requireValid(existing) }
      }
      let admitted: Admitted
      try {
        admitted = await admit(request)
      } catch (refusal) {
        // What is refused to a new account does not concern one that exists (RFC 8555 §7.3.1).
        const existing = refusal instanceof Problem && (await store.findByThumbprint(key.thumbprint))
        if (!existing) throw refusal
        return { created: false, account: await renewAgreement(requireValid(existing), request) }
      }
      const { created, account } = await create(key, admitted, now)
      cache.remember(requireValid(account), key)
      if (!created) return { created, account: await renewAgreement(account, request) }
      events.registered(account, admitted.binding?.kid)
      return { created, account }
    },

    requireCurrentTerms(known) {
      return hasAgreed(known.account) ? undefined : requireAgreement(known)
    },

    async read({ requester }) {
      const account = await store.find(requester.accountId)
      if (account?.status !== 'valid' || account.keyVersion !== requester.keyVersion) throw new StaleAccountError()
      return account
    },

    async updateContacts({ requester }, contacts) {
      if (!policy.allowContactUpdate) throw new Problem('unauthorized', 'contacts cannot be changed on this server')
      const checked = checkContacts(contacts, policy.contacts)
      if (requireMailDomains) await requireMailDomains(checked)
      return updated(await store.updateContacts(requester, checked))
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

function requireTerms(agreed: boolean, policy: RegistrationPolicy): void {
  if (policy.termsRequired && !agreed) throw termsProblem('this server has terms of service', policy)
}

function termsProblem(reason: string, { termsUrl, termsInstructionsUrl }: RegistrationPolicy): Problem {
  const detail = `${reason}: read ${termsUrl} and agree by a new-account request with termsOfServiceAgreed: true`
  return new Problem('userActionRequired', detail, {
    links: [`<${termsUrl}>;rel="terms-of-service"`],
    ...(termsInstructionsUrl !== undefined && { instance: termsInstructionsUrl }),
  })
}

/** RFC 8555 §7.3.6: no request signed by the key of a deactivated account is accepted, not even one to find it. */
function requireValid(account: Account): Account {
  if (account.status !== 'valid')
    throw new Problem('unauthorized', `the account of this key is ${account.status}`, { status: 401 })
  return account
}

/** Accounts: registration, update, deactivation, key change (RFC 8555 §7.3). */

import type { MailDomainFinding } from '../../workers/job.ts'
import { type ContactPolicy, checkContacts } from '../domain/contact.ts'
import type { Account } from '../domain/records.ts'
import { uuidv7 } from '../shared/lib/uuid.ts'
import { hashSpki } from '../shared/pki/algorithms.ts'
import type { AccountKey } from '../shared/protocol/jwk.ts'
import { Problem, type ProblemType } from '../shared/protocol/problem.ts'
import { type AccountStore, KeyBlocked } from '../store/account-store.ts'
import type { CertificateStore } from '../store/certificate-store.ts'
import { type AccountCache, type KnownAccount, StaleAccountError } from './account-cache.ts'
import type { NoteAcmeAct } from './decisions/acme-decisions.ts'
import type { ExternalAccounts, ProvenBinding } from './external-accounts.ts'

export interface RegistrationPolicy {
  contacts: ContactPolicy
  /** `tos.url`, when there are terms. */
  termsUrl: string | undefined
  termsRequired: boolean
  /** `tos.version`; undefined when an agreement never ends. */
  termsVersion: string | undefined
  /** A page that tells users how to agree. */
  termsInstructionsUrl: string | undefined
  allowContactUpdate: boolean
  allowDeactivation: boolean
}

interface RegistrationRequest {
  key: AccountKey
  contacts: readonly string[]
  termsAgreed: boolean
  onlyReturnExisting: boolean
  /** The member as sent; undefined when absent. */
  externalAccountBinding: unknown
  /** The request's URL, which the binding must repeat. */
  url: string
  /** Address of the client. */
  address: string
}

export interface RegistrationEvents {
  registered(account: Account, eabKid: string | undefined): void
  /** A new account was refused for its contacts. */
  contactsRefused(contacts: readonly string[], refusal: Problem): void
  deactivated(account: Account): void
  keyChanged(account: Account): void
}

interface RegistrationOptions {
  store: AccountStore
  externalAccounts: ExternalAccounts
  cache: AccountCache
  /** Undefined where `email.validate_mx` is off. */
  requireMailDomains: RequireMailDomains | undefined
  certificates: Pick<CertificateStore, 'isKeyBlocked'>
  policy: RegistrationPolicy
  note: NoteAcmeAct
  events: RegistrationEvents
}

interface Admitted {
  contacts: readonly string[]
  termsAgreed: boolean
  binding: ProvenBinding | undefined
}

const OF_CONTACTS: ReadonlySet<ProblemType> = new Set(['invalidContact', 'unsupportedContact'])

export class Registration {
  readonly #options: RegistrationOptions

  constructor(options: RegistrationOptions) {
    this.#options = options
  }

  /**
   * @throws Problem accountDoesNotExist, userActionRequired, invalidContact, unsupportedContact,
   *   externalAccountRequired, badPublicKey, unauthorized 401, and the problems of `ExternalAccounts.prove`
   */
  async register(request: RegistrationRequest, now: Date): Promise<{ created: boolean; account: Account }> {
    const { store, cache, events } = this.#options
    const { key } = request
    if (request.onlyReturnExisting) {
      const existing = await store.findByThumbprint(key.thumbprint)
      if (!existing) throw new Problem('accountDoesNotExist', 'there is no account with this key')
      return { created: false, account: requireValid(existing) }
    }
    let admitted: Admitted
    try {
      admitted = await this.#admit(request, now)
    } catch (refusal) {
      // Rules for new accounts do not apply to an existing one (RFC 8555 §7.3.1).
      const existing = refusal instanceof Problem && (await store.findByThumbprint(key.thumbprint))
      if (!existing) {
        if (refusal instanceof Problem && OF_CONTACTS.has(refusal.type))
          events.contactsRefused(request.contacts, refusal)
        throw refusal
      }
      return { created: false, account: await this.#renewAgreement(requireValid(existing), request) }
    }
    const { created, account } = await this.#create(key, admitted, now)
    cache.remember(requireValid(account))
    if (!created) return { created, account: await this.#renewAgreement(account, request) }
    events.registered(account, admitted.binding?.kid)
    const { contacts, thumbprint } = account
    await this.#options.note('acme.new_account', account.id, { contacts, thumbprint, kid: admitted.binding?.kid })
    return { created, account }
  }

  /**
   * Requires agreement to the current terms (RFC 8555 §7.3.3).
   * @returns undefined when the cached account has agreed
   * @throws Problem userActionRequired
   */
  requireCurrentTerms(known: KnownAccount): Promise<void> | undefined {
    return this.#hasAgreed(known.account) ? undefined : this.#requireAgreement(known)
  }

  /** Reads the stored account, which may differ from the cached one. @throws StaleAccountError */
  async read({ requester }: KnownAccount): Promise<Account> {
    const account = await this.#options.store.find(requester.accountId)
    if (account?.status !== 'valid' || account.keyVersion !== requester.keyVersion) throw new StaleAccountError()
    return account
  }

  async updateContacts({ requester }: KnownAccount, contacts: readonly string[]): Promise<Account> {
    const { store, policy, requireMailDomains, note } = this.#options
    if (!policy.allowContactUpdate) throw new Problem('unauthorized', 'contacts cannot be changed on this server')
    const checked = checkContacts(contacts, policy.contacts)
    if (requireMailDomains) await requireMailDomains(checked)
    const account = this.#updated(await store.updateContacts(requester, checked))
    const changedAt = await store.changedAt(account.id)
    await note('acme.update_contacts', account.id, { contacts: checked, changed_at: changedAt })
    return account
  }

  async deactivate({ requester }: KnownAccount): Promise<Account> {
    const { store, policy, note, events } = this.#options
    if (!policy.allowDeactivation)
      throw new Problem('unauthorized', 'accounts cannot be deactivated by their holders on this server')
    const account = this.#updated(await store.deactivate(requester))
    events.deactivated(account)
    await note('acme.deactivate_account', account.id, {})
    return account
  }

  /**
   * @returns the account with its new key, or the id of the account that has that key
   * @throws Problem badPublicKey
   */
  async changeKey({ requester }: KnownAccount, key: AccountKey): Promise<Account | { taken: string }> {
    await this.#requireUnblocked(key)
    const { jwk, thumbprint } = key
    const result = await this.#options.store.changeKey(requester, { jwk, thumbprint })
    if (result && 'taken' in result) return result
    const account = this.#updated(result)
    this.#options.events.keyChanged(account)
    const { id, keyVersion } = account
    await this.#options.note('acme.change_key', id, { key_version: keyVersion, jwk, thumbprint })
    return account
  }

  /** No row means that the cached account was stale, or another request was faster. */
  #updated(account: Account | undefined): Account {
    if (!account) throw new StaleAccountError()
    this.#options.cache.forget(account.id)
    return account
  }

  /** Checks a new account. @throws Problem */
  async #admit(request: RegistrationRequest, now: Date): Promise<Admitted> {
    const { contacts, termsAgreed, externalAccountBinding, key } = request
    const { policy, externalAccounts, requireMailDomains } = this.#options
    requireTerms(termsAgreed, policy)
    const checked = checkContacts(contacts, policy.contacts)
    const binding = await externalAccounts.prove(externalAccountBinding, request, now)
    // Without a binding, the insert itself checks the key.
    if (binding || requireMailDomains) await this.#requireUnblocked(key)
    // Last, so that refused requests cause no DNS look-ups.
    if (requireMailDomains) {
      await requireMailDomains(checked)
      // The name servers of a stranger may take seconds, in which the key may become known.
      if (binding) await this.#requireUnblocked(key)
    }
    return { contacts: checked, termsAgreed, binding }
  }

  async #requireUnblocked(key: AccountKey): Promise<void> {
    if (await this.#options.certificates.isKeyBlocked(hashSpki({ der: key.spki() })))
      throw new Problem('badPublicKey', 'this key is known to be compromised; make another one')
  }

  async #create(key: AccountKey, { contacts, termsAgreed, binding }: Admitted, now: Date) {
    const { thumbprint, jwk } = key
    const { store, externalAccounts, policy } = this.#options
    const { termsVersion } = policy
    const agreed = { termsAgreed, ...(termsAgreed && termsVersion !== undefined && { termsVersion }) }
    const account = { id: uuidv7(now.getTime()), thumbprint, jwk, contacts, ...agreed }
    if (!binding)
      return store.create(account).catch(async (error) => {
        if (error instanceof KeyBlocked) await this.#requireUnblocked(key)
        throw error
      })
    const created = await externalAccounts.register(account, binding)
    const found = await store.findByThumbprint(thumbprint)
    if (!found) throw externalAccounts.lostCredential(binding)
    return { created, account: found }
  }

  #hasAgreed({ termsVersion }: Account): boolean {
    const { policy } = this.#options
    return policy.termsVersion === undefined || termsVersion === policy.termsVersion
  }

  /** Only registering again agrees to new terms; an account update cannot (RFC 8555 §7.3.2). */
  async #renewAgreement(account: Account, { termsAgreed }: RegistrationRequest): Promise<Account> {
    const { store, cache, policy } = this.#options
    if (!termsAgreed || policy.termsVersion === undefined || this.#hasAgreed(account)) return account
    const agreed = await store.agreeToTerms(account.id, policy.termsVersion)
    cache.forget(account.id)
    return agreed ?? account
  }

  /** The cached account has not agreed, but may have through another thread since. */
  async #requireAgreement({ account: { id } }: KnownAccount): Promise<void> {
    const { store, cache, policy } = this.#options
    const current = await store.find(id)
    if (!current || !this.#hasAgreed(current)) throw termsProblem('the terms of service have changed', policy)
    cache.forget(id)
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

/** RFC 8555 §7.3.6: every request with the key of a deactivated account is refused. */
function requireValid(account: Account): Account {
  if (account.status !== 'valid')
    throw new Problem('unauthorized', `the account of this key is ${account.status}`, { status: 401 })
  return account
}

/*
 * Mail domains of contacts (`email.validate_mx`). A domain whose name servers do not answer is accepted, as no
 * certificate depends on a contact.
 */

/** One finding per domain, in their order; undefined when the checkers are busy. */
export type AskForMailDomains = (domains: readonly string[]) => Promise<readonly MailDomainFinding[] | undefined>

/** @param contacts mailto URLs of one address each. Rejects with Problem invalidContact. */
type RequireMailDomains = (contacts: readonly string[]) => Promise<void>

export function createMailDomainCheck(ask: AskForMailDomains): RequireMailDomains {
  return async (contacts) => {
    const domains = [...new Set(contacts.map(domainOf))]
    if (domains.length === 0) return
    const findings = (await ask(domains)) ?? []
    const reasons = findings.flatMap((finding) => (finding.result === 'refused' ? [finding.reason] : []))
    if (reasons.length > 0)
      throw new Problem('invalidContact', `a contact must be an address that can receive mail: ${reasons.join('; ')}`)
  }
}

const domainOf = (contact: string) => contact.slice(contact.lastIndexOf('@') + 1).toLowerCase()

/** The services of accounts in a front thread: registration, external accounts, and rules. */

import { registrationEvents } from '../../front/events.ts'
import { createAccountCache } from '../../services/account-cache.ts'
import { createAccountRules } from '../../services/account-rules.ts'
import type { NoteAcmeAct } from '../../services/decisions/acme-decisions.ts'
import { createExternalAccounts } from '../../services/external-accounts.ts'
import { announcingAccounts } from '../../services/flow-cache.ts'
import { type AskForMailDomains, createMailDomainCheck, Registration } from '../../services/registration.ts'
import {
  accountRulesPolicy,
  eabSecretBox,
  externalAccountPolicy,
  registrationPolicy,
} from '../../settings/account-settings.ts'
import type { ChangeCounters } from '../../shared/lib/shared-memory.ts'
import { createAllowlistStore, createCsrProfileStore } from '../../store/account-rules-store.ts'
import { createAccountStore } from '../../store/account-store.ts'
import { createEabStore } from '../../store/eab-store.ts'
import type { ThreadParts } from '../ca/start-issuance.ts'

export function createAccountServices(
  thread: ThreadParts,
  changes: ChangeCounters,
  askForMailDomains: AskForMailDomains | undefined,
  note: NoteAcmeAct,
) {
  const { config, db, stores } = thread
  const store = announcingAccounts(createAccountStore(db), changes)
  const accounts = createAccountCache(store.find, store.findIdByPath)
  const registration = new Registration({
    store,
    externalAccounts: createExternalAccounts(createEabStore(db), eabSecretBox(config), externalAccountPolicy(config)),
    cache: accounts,
    requireMailDomains: askForMailDomains && createMailDomainCheck(askForMailDomains),
    certificates: stores.certificates,
    policy: registrationPolicy(config),
    note,
    events: registrationEvents(thread),
  })
  const rules = createAccountRules(createAllowlistStore(db), createCsrProfileStore(db), accountRulesPolicy(config))
  return { accounts, rules, registration }
}

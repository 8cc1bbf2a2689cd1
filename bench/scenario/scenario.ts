/** The type of a scenario: how its accounts are prepared, and its one operation. */

import type { AcmeClient, Directory } from '../client/acme.ts'
import type { Target } from '../client/http.ts'
import type { Account } from '../client/resources.ts'
import type { Crypto } from '../measure/crypto-floor.ts'
import type { Download } from './checks.ts'

/** A responder's data: a TXT record, or for tls-alpn-01 the digest of the key authorization. */
export interface Proof {
  name: string
  text: string
}

/** Shared by operations within one generator process. */
export interface Context {
  target: Target
  directory: Directory
  /** The next account in turn. */
  nextAccount(): Account
  /** An account that no other operation has taken. @throws Failure when there is none */
  takeAccount(): Account
  /** A new name, from which the http-01 responder can tell the account. */
  nextName(account: Account): string
  /** Base64url DER of a request for one name. */
  csrFor(name: string): string
  /** Resolves when the responders know it. */
  publish(proof: Proof): Promise<void>
  /** Hands a chain over to be checked. */
  collect(download: Download): void
}

export interface Scenario {
  usesAccounts: boolean
  /** Needs the responder of the challenge. */
  answersChallenges?: true
  /** Undefined where no signature is involved. */
  floor: Crypto | undefined
  /** Once per account, before the clock starts. @throws Error when the server does not offer what it is about */
  prepareAccount?(client: AcmeClient, context: Context, account: Account): Promise<void>
  /** @throws Failure */
  operate(client: AcmeClient, context: Context): Promise<void>
}

/**
 * DNS names of a run, such as `bk3x9-1c-7p.test`: fresh for every order, and each says which account ordered it.
 * @param runId Different for every process of every run, so that nothing authorised before is ever reused.
 */
export function nameMaker(runId: string, suffix: string): (accountIndex: number) => string {
  let count = 0
  return (accountIndex) => `${runId}-${accountIndex.toString(36)}-${(count++).toString(36)}${suffix}`
}

/** The account that ordered a name; NaN for a name that is not ours. */
export function accountIndexOf(name: string): number {
  return Number.parseInt(name.split('-')[1] ?? '', 36)
}

/** Where the http-01 responder looks for the thumbprint of an account; no DNS name. */
export function thumbprintName(accountIndex: number): string {
  return `account ${accountIndex}`
}

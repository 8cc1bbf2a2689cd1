/** What a scenario is: how its accounts are prepared and what one operation does. */

import type { Download } from '../check/certificate.ts'
import type { Account } from '../client/account.ts'
import type { AcmeClient, Directory } from '../client/acme.ts'
import type { PollSettings } from '../client/polling.ts'
import type { NewKey } from '../client/signer.ts'
import type { FloorParts } from '../measure/crypto-floor.ts'
import type { Proof } from './challenge.ts'

/** What operations share within one generator process. */
export interface Context {
  directoryUrl: string
  directory: Directory
  newKey: NewKey
  /** The next account in turn. */
  nextAccount(): Account
  /** A name nobody has asked for before, from which the http-01 responder can tell the account. */
  nextName(account: Account): string
  /** Base64url DER of a request for one name. */
  csrFor(name: string): string
  /** Of the challenge to choose. */
  challengeType: string
  poll: PollSettings
  /** Resolves when the responders know it. */
  publish(proof: Proof): Promise<void>
  /** Hands a chain over to be checked. */
  collect(download: Download): void
}

export interface Scenario {
  summary: string
  usesAccounts: boolean
  /** Needs the responder of the challenge. */
  answersChallenges?: true
  /** Undefined where no signature is involved. */
  floor: FloorParts | undefined
  /** Once per account, before the clock starts. */
  prepareAccount?(client: AcmeClient, context: Context, account: Account): Promise<void>
  /** @throws Failure */
  operate(client: AcmeClient, context: Context): Promise<void>
}

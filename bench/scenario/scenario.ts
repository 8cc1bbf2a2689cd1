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
  /** One that nobody else has taken; there are at least as many accounts as clients. */
  takeAccount(): Account
  giveBack(account: Account): void
  /** In all processes. */
  accountCount: number
  /** A name nobody has asked for before, from which the http-01 responder can tell the account. */
  nextName(account: Account): string
  /** Base64url DER of a request for one name. */
  csrFor(name: string): string
  /** Of the challenge to choose. */
  challengeType: string
  poll: PollSettings
  /** Reads of renewal information before a renewal. */
  renewalReads: number
  /** Reads of the CRL after a renewal; undefined is one, where the certificate names a CRL. */
  crlReads: number | undefined
  /** Challenges that wait while others are measured. */
  storm: number
  /** Of the service, when the bench has started it. */
  dataDir: string | undefined
  /** Resolves when the responders know it. */
  publish(proof: Proof): Promise<void>
  /** Hands a chain over to be checked. */
  collect(download: Download): void
  /** Has work that is no request of a client among the steps of the operation. */
  timed<T>(step: string, work: () => Promise<T>): Promise<T>
}

/** The server does not offer what the scenario is about. */
export class Unsupported extends Error {}

export interface Scenario {
  summary: string
  usesAccounts: boolean
  /** Needs the responder of the challenge. */
  answersChallenges?: true
  /** Undefined where no signature is involved. */
  floor: FloorParts | undefined
  /** Its http-01 targets take connections and say nothing until the clock has stopped. */
  holdsAnswers?: true
  /** Not part of "all". */
  onlyByName?: true
  /** Once per account, before the clock starts. @throws Unsupported */
  prepareAccount?(client: AcmeClient, context: Context, account: Account): Promise<void>
  /** Once per account, when the clock has stopped and held answers have gone out. @throws Failure */
  finishAccount?(client: AcmeClient, context: Context, account: Account): Promise<void>
  /** @throws Failure */
  operate(client: AcmeClient, context: Context): Promise<void>
}

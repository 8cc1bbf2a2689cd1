/** `full-flow`: certificates for fresh names. */

import { ISSUANCE_FLOOR, issueCertificate } from './issue.ts'
import type { Scenario } from './scenario.ts'

export const fullFlow: Scenario = {
  summary: 'order, challenge, finalize and download of one certificate',
  usesAccounts: true,
  answersChallenges: true,
  floor: ISSUANCE_FLOOR,
  async operate(client, context) {
    const account = context.nextAccount()
    await issueCertificate(client, context, account, context.nextName(account))
  },
}

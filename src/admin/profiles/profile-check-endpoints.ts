/** `POST /csr-profiles/check`: whom a profile would refuse, before it is stored. */

import { z } from 'zod/v4'
import { BOTH_ROLES, endpoint, endpointGroup } from '../endpoint.ts'
import { uuid } from '../schemas.ts'
import { ProfileData } from './csr-profile-data.ts'
import { CHECKED_CERTIFICATES } from './profile-check.ts'

const CsrProfileCheck = z
  .strictObject({
    checked: z.int().meta({ description: 'Certificates that were tried.' }),
    complete: z.boolean().meta({ description: 'False when two seconds were over before the last of them.' }),
    refused: z.int(),
    accounts: z.int().meta({ description: 'Accounts of the refused ones.' }),
    examples: z
      .array(
        z.strictObject({
          serial_number: z.string(),
          account_id: z.uuid(),
          san_values: z.array(z.string()),
          violations: z.array(z.string()),
        }),
      )
      .meta({ description: 'At most 50 and 48,000 characters, the newest first; five violations of each.' }),
    not_checked: z
      .array(z.strictObject({ field: z.string(), reason: z.string() }))
      .meta({ description: 'Fields that no certificate answers.' }),
  })
  .meta({ id: 'CsrProfileCheck' })

export const CSR_PROFILE_CHECK = endpointGroup('CSR profiles', {
  checkCsrProfile: endpoint({
    route: 'POST /csr-profiles/check',
    roles: BOTH_ROLES,
    summary: `Tries profile data that is not stored on the last ${CHECKED_CERTIFICATES} certificates, and changes nothing.`,
    body: z.strictObject({
      profile_data: ProfileData,
      profile_id: uuid().optional().meta({
        description: 'Only certificates of accounts for which this profile counts, among the last 10,000.',
      }),
    }),
    reply: { status: 200, schema: CsrProfileCheck },
    errors: ['not_found', 'rate_limited'],
    async handle({ body, author }, { checkProfile, profileTrials }) {
      const found = await profileTrials.run(author.userId, () => checkProfile(body.profile_data, body.profile_id))
      const { checked, isComplete, refused, accounts, unknowable } = found
      return {
        body: {
          checked,
          complete: isComplete,
          refused,
          accounts,
          not_checked: unknowable,
          examples: found.examples.map(({ certificate: { serial_number, account_id, names }, violations }) => ({
            serial_number,
            account_id,
            san_values: names,
            violations,
          })),
        },
      }
    },
  }),
})

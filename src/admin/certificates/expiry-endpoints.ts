/** How many certificates end when, and whose: `/certificates/expiry-histogram` and `/certificates/expiring-by-account`. */

import * as z from 'zod/v4'
import { accountNameMember, withAccountNames } from '../account-names.ts'
import { endpoint, endpointGroup } from '../admin-endpoint.ts'
import { wholeParameter } from '../schemas.ts'
import { EXPIRY_DAYS, expiringByAccount, expiryHistogram, HISTOGRAM_GROUPS, MOST_ACCOUNTS } from './expiry-counts.ts'

const isEstimate = () =>
  z.boolean().meta({ description: 'True when the number is scaled from a sample of many certificates.' })

const Histogram = z
  .strictObject({
    is_estimate: isEstimate(),
    buckets: z.array(
      z.strictObject({
        day: z.iso.date(),
        group: z.string().nullable().meta({ description: 'Null where the order of a certificate is gone.' }),
        certificates: z.int(),
      }),
    ),
  })
  .meta({ id: 'ExpiryHistogram' })

const Expiring = z
  .array(z.strictObject({ days: z.int(), certificates: z.int() }))
  .meta({ description: 'Unrevoked ones that end within so many days.' })

const ExpiringByAccount = z
  .strictObject({
    is_estimate: isEstimate(),
    accounts: z
      .array(
        z.strictObject({
          account_id: z.uuid().nullable().meta({ description: 'Null for certificates that no account is known of.' }),
          account_name: accountNameMember(),
          contacts: z.array(z.string()),
          eab_kid: z.string().nullable(),
          expiring: Expiring,
        }),
      )
      .meta({ description: `The ${MOST_ACCOUNTS} with the most certificates within ${EXPIRY_DAYS.at(-1)} days.` }),
    others: Expiring,
  })
  .meta({ id: 'ExpiringByAccount' })

const byDays = (counts: readonly number[]) =>
  EXPIRY_DAYS.map((days, index) => ({ days, certificates: counts[index] ?? 0 }))

export const EXPIRY = endpointGroup('Certificates', {
  getExpiryHistogram: endpoint({
    route: 'GET /certificates/expiry-histogram',
    permission: 'read',
    summary: 'Counts certificates that are not revoked by the day of their end, and by issuer or profile.',
    query: z.strictObject({
      by: z.enum(HISTOGRAM_GROUPS).default('issuer'),
      days: wholeParameter(1, 400).default(90),
    }),
    reply: { status: 200, schema: Histogram },
    async handle({ query: { by, days } }, { db }) {
      const { buckets, isEstimate } = await expiryHistogram(db, by, days)
      return { body: { is_estimate: isEstimate, buckets: [...buckets] } }
    },
  }),
  getExpiringByAccount: endpoint({
    route: 'GET /certificates/expiring-by-account',
    permission: 'read',
    summary: `Counts certificates that are not revoked and end within ${EXPIRY_DAYS.join(', ')} days, by account.`,
    reply: { status: 200, schema: ExpiringByAccount },
    async handle(_request, { db }) {
      const { accounts, others, isEstimate } = await expiringByAccount(db)
      return {
        body: {
          is_estimate: isEstimate,
          accounts: (await withAccountNames(db, accounts)).map(({ expiring, ...account }) => ({
            ...account,
            expiring: byDays(expiring),
          })),
          others: byDays(others),
        },
      }
    },
  }),
})

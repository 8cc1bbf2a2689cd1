/** `/renewals`: advice to clients to renew now (RFC 9773 §4.2). */

import { z } from 'zod/v4'
import { boundedArray } from '../../shared/lib/bounded.ts'
import type { AdviceSelection } from '../../store/renewal-store.ts'
import { ADMINS, endpoint, endpointGroup } from '../endpoint.ts'
import { fingerprint, instantParameter, serialNumber, time, timestamp, whenSound } from '../schemas.ts'

const filter = () =>
  z
    .strictObject({
      serial_numbers: boundedArray(serialNumber(), 10_000, 1).optional(),
      issuer: fingerprint().optional(),
      issued_before: instantParameter().optional(),
      all: z.literal(true).optional(),
    })
    .refine(({ all, ...others }) => (Object.keys(others).length === 0) === (all === true), {
      error: "must have 'all': true alone, or say which certificates",
      when: whenSound,
    })
    .meta({ description: 'Members combine; certificates that have expired are left out.' })

function selectionOf({ serial_numbers, issuer, issued_before }: z.output<ReturnType<typeof filter>>): AdviceSelection {
  return {
    ...(serial_numbers && { serialNumbers: serial_numbers.map((serial) => Buffer.from(serial, 'hex')) }),
    ...(issuer !== undefined && { issuerFingerprint: Buffer.from(issuer, 'hex') }),
    ...(issued_before && { issuedBefore: issued_before }),
  }
}

export const RENEWALS = endpointGroup('Renewals', {
  adviseRenewal: endpoint({
    route: 'POST /renewals',
    roles: ADMINS,
    summary: 'Tells the clients of certificates to renew them now.',
    body: z.strictObject({
      filter: filter(),
      window_end: instantParameter().optional().meta({ description: 'Until when they spread; else at once.' }),
      explanation_url: z
        .url({ protocol: /^https?$/, error: 'must be an http or https URL' })
        .max(2_048)
        .optional(),
    }),
    reply: {
      status: 200,
      schema: z.strictObject({ certificates: z.int(), window_start: timestamp(), window_end: timestamp() }),
    },
    audit: 'renewal.advise',
    async handle({ body, author }, { renewals }) {
      const wanted = { windowEnd: body.window_end, explanationUrl: body.explanation_url }
      const { certificates, window } = await renewals.advise(author, selectionOf(body.filter), wanted)
      return { body: { certificates, window_start: time(window.start), window_end: time(window.end) } }
    },
  }),
  clearRenewals: endpoint({
    route: 'DELETE /renewals',
    roles: ADMINS,
    summary: 'Takes such advice back.',
    body: z.strictObject({ filter: filter() }),
    reply: { status: 200, schema: z.strictObject({ certificates: z.int() }) },
    audit: 'renewal.clear',
    handle: async ({ body, author }, { renewals }) => ({
      body: { certificates: await renewals.clear(author, selectionOf(body.filter)) },
    }),
  }),
})

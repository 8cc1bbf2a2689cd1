/** `/terms`: the terms of service, and agreements that were given outside the protocol. */

import { z } from 'zod/v4'
import { ADMINS, BOTH_ROLES, endpoint, endpointGroup } from '../endpoint.ts'
import { uuid, whenSound } from '../schemas.ts'

export const TERMS = endpointGroup('Terms of service', {
  getTerms: endpoint({
    route: 'GET /terms',
    roles: BOTH_ROLES,
    summary: 'Shows which terms count, and how many valid accounts have agreed to them.',
    reply: {
      status: 200,
      schema: z.strictObject({
        url: z.string().nullable(),
        version: z.string().nullable().meta({ description: 'Null where an agreement is good for ever.' }),
        require_agreement: z.boolean(),
        accounts: z.int().meta({ description: 'Valid ones.' }),
        agreed: z.int().meta({ description: 'Of them, those that have agreed to this version.' }),
      }),
    },
    async handle(_request, { terms }) {
      const { url, version, require_agreement } = terms.settings
      return { body: { url, version, require_agreement, ...(await terms.count()) } }
    },
  }),
  acceptTerms: endpoint({
    route: 'POST /terms/accept',
    roles: ADMINS,
    summary: 'Records that an account, or every valid one, has agreed to the current version.',
    body: z
      .strictObject({ account_id: uuid().optional(), all: z.literal(true).optional() })
      .refine(({ account_id, all }) => (account_id === undefined) === (all === true), {
        error: "must have either 'account_id' or 'all': true",
        when: whenSound,
      }),
    reply: {
      status: 200,
      schema: z.strictObject({
        accounts: z.int().meta({ description: 'That have now agreed.' }),
        version: z.string(),
      }),
    },
    errors: ['not_found', 'conflict'],
    audit: 'terms.accept',
    handle: async ({ body: { account_id }, author }, { terms }) => ({
      body: await (account_id === undefined ? terms.acceptForAll(author) : terms.accept(author, account_id)),
    }),
  }),
})

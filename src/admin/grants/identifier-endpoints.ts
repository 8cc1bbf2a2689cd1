/** `/allowed-identifiers`: what accounts may request where allowlists are enforced. */

import type { CommonQueryMethods } from 'slonik'
import * as z from 'zod/v4'
import { notFound } from '../../domain/admin-error.ts'
import { type AllowedIdentifier as AllowedIdentifierValue, parseAllowedIdentifier } from '../../domain/allowlist.ts'
import { boundedArray } from '../../shared/lib/bounded.ts'
import { namesOf } from '../account-names.ts'
import { endpoint, endpointGroup, withoutBody } from '../admin-endpoint.ts'
import { placeParameters, readByCursor } from '../pages.ts'
import { line, uuid, whenSound, withTimes } from '../schemas.ts'
import {
  AllowedIdentifier,
  createIdentifier,
  findIdentifier,
  type IdentifierWithSome,
  pagesOfIdentifiers,
  removeIdentifier,
} from './allowed-identifiers.ts'
import { type IdentifierOutcome, WITHDRAWALS } from './grants.ts'

/** One statement for the accounts of all rows. */
async function identifierBodies(db: CommonQueryMethods, rows: readonly IdentifierWithSome[]) {
  const names = await namesOf(
    db,
    rows.flatMap(({ account_ids }) => account_ids),
  )
  return rows.map(
    (row): z.input<typeof AllowedIdentifier> => ({
      ...withTimes(row),
      account_names: row.account_ids.map((id) => names.get(id) ?? null),
    }),
  )
}

/** The identifier with this id; none where there is none. */
export async function identifiersWith(db: CommonQueryMethods, id: string): Promise<AllowedIdentifierValue[]> {
  const found = await findIdentifier(db, id)
  return found ? [{ type: found.identifier_type, value: found.identifier_value }] : []
}

const MOST_CHANGED = 1_000
const texts = () => boundedArray(line(255), MOST_CHANGED).optional()

/** Changes for an account or a credential. */
export const ChangedIdentifiers = z
  .strictObject({
    allow: texts().meta({ description: 'Names, `*.name`, addresses, networks; missing identifiers are made.' }),
    disallow: texts(),
  })
  .refine(({ allow = [], disallow = [] }) => allow.length + disallow.length > 0, {
    error: "has neither 'allow' nor 'disallow'",
    when: whenSound,
  })

export const IdentifierOutcomes = z
  .array(
    z.strictObject({
      identifier: z.string(),
      outcome: z.enum(['allowed', ...WITHDRAWALS]).meta({
        description: '`absent`: it was not allowed. `kept`: the credential of the account still grants it.',
      }),
    }),
  )
  .meta({ id: 'IdentifierOutcomes' })

export const outcomesBody = (outcomes: readonly IdentifierOutcome[]): z.input<typeof IdentifierOutcomes> =>
  outcomes.map(({ identifier, outcome }) => ({ identifier: identifier.value, outcome }))

const params = z.strictObject({ identifier_id: uuid() })
export const ALLOWED_IDENTIFIERS = endpointGroup('Allowed identifiers', {
  listAllowedIdentifiers: endpoint({
    route: 'GET /allowed-identifiers',
    permission: 'administer',
    reply: { status: 200, schema: z.array(AllowedIdentifier) },
    query: z.strictObject({ value: line(255).optional(), ...placeParameters() }),
    async handle({ query: { value, ...place } }, { db, pages }) {
      const parsed = value === undefined ? undefined : parseAllowedIdentifier(value)
      if (parsed?.ok === false) return { body: [] }
      const { rows, next } = await readByCursor(place, pages, pagesOfIdentifiers(db, parsed?.identifier))
      return { body: await identifierBodies(db, rows), next }
    },
  }),
  createAllowedIdentifier: endpoint({
    route: 'POST /allowed-identifiers',
    permission: 'administer',
    body: z.strictObject({ type: z.enum(['dns', 'ip']), value: line(255) }),
    reply: { status: 201, schema: AllowedIdentifier },
    errors: ['conflict'],
    audit: 'identifier.create',
    async handle({ body, author }, { audit }) {
      const made = withTimes(await createIdentifier(audit, author, body))
      return { body: { ...made, credential_kids: [], account_ids: [], account_names: [], more_accounts: false } }
    },
  }),
  getAllowedIdentifier: endpoint({
    route: 'GET /allowed-identifiers/{identifier_id}',
    permission: 'administer',
    params,
    reply: { status: 200, schema: AllowedIdentifier },
    async handle({ params }, { db }) {
      const found = await findIdentifier(db, params.identifier_id)
      const [body] = await identifierBodies(db, found ? [found] : [])
      if (!body) throw notFound('allowed identifier')
      return { body }
    },
  }),
  deleteAllowedIdentifier: endpoint({
    route: 'DELETE /allowed-identifiers/{identifier_id}',
    permission: 'administer',
    params,
    reply: { status: 204 },
    audit: 'identifier.delete',
    handle: ({ params, author }, { audit }) => withoutBody(removeIdentifier(audit, author, params.identifier_id)),
  }),
})

/** `/terms`: which terms of service count, who has agreed, and agreements given outside the protocol. */

import type { CommonQueryMethods } from 'slonik'
import * as z from 'zod/v4'
import { AdminError, requireFound } from '../../domain/admin-error.ts'
import type { Actor } from '../../domain/administrator.ts'
import { agreeToTerms } from '../../store/account-store.ts'
import { constantSql, queriesOf, rowsOf } from '../../store/slonik.ts'
import { account } from '../../store/status-sql.ts'
import { endpoint, endpointGroup } from '../admin-endpoint.ts'
import type { AuditLog } from '../audit/audit-log.ts'
import type { TermsSettings } from '../context.ts'
import { uuid, whenSound } from '../schemas.ts'

export const TERMS = endpointGroup('Terms of service', {
  getTerms: endpoint({
    route: 'GET /terms',
    permission: 'read',
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
    async handle(_request, { db, policy: { terms } }) {
      const { url, version, require_agreement } = terms
      return { body: { url, version, require_agreement, ...(await countAgreements(db, version)) } }
    },
  }),
  acceptTerms: endpoint({
    route: 'POST /terms/accept',
    permission: 'administer',
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
    handle: async ({ body: { account_id }, author }, { audit, policy: { terms } }) => ({
      body: await (account_id === undefined
        ? acceptForAll(audit, author, terms)
        : acceptFor(account_id, audit, author, terms)),
    }),
  }),
})

/** @throws AdminError not_found for an account that is not valid; conflict where there are no versions */
function acceptFor(accountId: string, audit: AuditLog, actor: Actor, terms: TermsSettings) {
  return audit.transaction(actor, async (tx, note) => {
    const version = requireVersion(terms)
    requireFound(await agreeToTerms(queriesOf(tx), accountId, version), 'valid account')
    note('terms.accept', { account_id: accountId, version })
    return { accounts: 1, version }
  })
}

/** For every valid account that lacks this version, a page and its entry at a time. */
async function acceptForAll(audit: AuditLog, actor: Actor, terms: TermsSettings) {
  let accounts = 0
  let after: string | undefined
  do {
    const from: string | undefined = after
    const page = await audit.transaction(actor, async (tx, note) => {
      const version = requireVersion(terms)
      const page = await agreePageToTerms(tx, version, from)
      if (page.agreed > 0) note('terms.accept', { accounts: page.agreed, version })
      return page
    })
    accounts += page.agreed
    after = page.last_id ?? undefined
  } while (after !== undefined)
  return { accounts, version: requireVersion(terms) }
}

function requireVersion({ version }: TermsSettings): string {
  if (version !== null) return version
  throw new AdminError('conflict', 'tos.version is not set: an agreement is good for ever')
}

const isValid = constantSql(`status ${account.is('valid')}`)
/** Rows a statement, so that other writers wait for milliseconds only. */
const TERMS_PAGE = 5000
const FIRST_ID = '00000000-0000-0000-0000-000000000000'

const AgreedPage = z.object({ agreed: z.int(), last_id: z.string().nullable() })

/**
 * Valid accounts that lack this version, along accounts_pkey. A page returns its last id even when it changed no row.
 */
function agreePageToTerms(tx: CommonQueryMethods, version: string, after: string = FIRST_ID) {
  return tx.one(rowsOf(AgreedPage)`
    WITH page AS (
      SELECT id FROM accounts WHERE id > ${after} ORDER BY id LIMIT ${TERMS_PAGE}
    ), agreed AS (
      UPDATE accounts a SET terms_agreed = true, terms_version = ${version}, updated_at = now()
        FROM page WHERE a.id = page.id AND a.${isValid} AND a.terms_version IS DISTINCT FROM ${version}
      RETURNING a.id
    )
    SELECT (SELECT count(*)::integer FROM agreed) AS agreed, (SELECT id FROM page ORDER BY id DESC LIMIT 1) AS last_id`)
}

const Agreements = z.object({ accounts: z.int(), agreed: z.int() })

/** Counts valid accounts; without versions, any agreement counts. Reads all accounts. */
function countAgreements(db: CommonQueryMethods, version: string | null) {
  return db.one(rowsOf(Agreements)`
    SELECT count(*)::integer AS accounts,
           (count(*) FILTER (WHERE terms_agreed AND (${version}::text IS NULL OR terms_version = ${version})))::integer AS agreed
      FROM accounts WHERE ${isValid}`)
}

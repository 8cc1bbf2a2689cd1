/** `/search`: one text over names, certificates, accounts, orders, credentials, users and settings. */

import * as z from 'zod/v4'
import { rolesOf } from '../../domain/permissions.ts'
import { readSearch } from '../../domain/search-text.ts'
import { type CommonQueryMethods, type DatabasePool, rowsOf, StatementTimeoutError } from '../../store/slonik.ts'
import { endpoint, endpointGroup } from '../admin-endpoint.ts'
import { line } from '../schemas.ts'
import { type Found, HITS, SEARCH_GROUPS, type SearchGroup } from './search-groups.ts'

const KINDS = Object.keys(SEARCH_GROUPS) as SearchGroup[]
/** Each group reads a bounded number of rows, and gives way to ACME clients (docs/decisions/search.md). */
const GROUP_MS = 5_000

const SearchResult = z
  .strictObject({
    groups: z.array(
      z.strictObject({
        kind: z.enum(KINDS),
        hits: z
          .array(
            z.strictObject({
              id: z.string().meta({ description: 'The name, serial number, key of a setting, or id.' }),
              title: z.string(),
              detail: z.string(),
            }),
          )
          .meta({ description: `At most ${HITS}.` }),
        more: z
          .record(z.string(), z.string())
          .nullable()
          .meta({ description: 'Filters of the list that shows all; null where there are no more.' }),
      }),
    ),
    not_searched: z
      .array(
        z.strictObject({
          kind: z.enum(KINDS),
          reason: z.string(),
          searched: z
            .enum(['in_part', 'not_at_all'])
            .meta({ description: '`not_at_all`: there may be hits of this kind.' }),
        }),
      )
      .meta({ description: 'What a hit may be missing for.' }),
  })
  .meta({ id: 'SearchResult' })

const TOO_SLOW: Found = { hits: [], notSearched: [`It took longer than ${GROUP_MS / 1000} seconds.`] }

export const SEARCH = endpointGroup('Search', {
  search: endpoint({
    route: 'GET /search',
    permission: 'read_accounts',
    scope: 'accounts',
    query: z.strictObject({
      q: line(255).meta({
        description:
          'A name or a part, a serial number or fingerprint or its beginning, a kid, contact, label, tag or id.',
      }),
    }),
    reply: { status: 200, schema: SearchResult },
    async handle({ query: { q }, author }, { db }) {
      const searched = readSearch(q)
      const kinds = KINDS.filter((kind) => rolesOf(SEARCH_GROUPS[kind].permission).includes(author.role))
      const groups = await Promise.all(
        kinds.map(async (kind) => {
          const found = await withinTime(db, GROUP_MS, (tx) => SEARCH_GROUPS[kind].find(searched, author, { db: tx }))
          return { kind, ...(found ?? TOO_SLOW), searched: found ? ('in_part' as const) : ('not_at_all' as const) }
        }),
      )
      return {
        body: {
          groups: groups
            .filter(({ hits }) => hits.length > 0)
            .map(({ kind, hits, more = null }) => ({ kind, hits: [...hits], more: more && { ...more } })),
          not_searched: groups.flatMap(({ kind, notSearched = [], searched }) =>
            notSearched.map((reason) => ({ kind, reason, searched })),
          ),
        },
      }
    },
  }),
})

class OutOfTime extends Error {}

/**
 * Runs the statements of `work` one after another on one connection.
 * @param ms from the moment at which the connection is there: work that waits for its turn loses no time
 * @returns undefined when the time was too short
 */
async function withinTime<T>(
  db: DatabasePool,
  ms: number,
  work: (db: CommonQueryMethods) => Promise<T>,
): Promise<T | undefined> {
  try {
    return await db.transaction((tx) => work(limited(tx, performance.now() + ms)))
  } catch (error) {
    if (error instanceof OutOfTime || error instanceof StatementTimeoutError) return undefined
    throw error
  }
}

function limited(tx: CommonQueryMethods, endsAt: number): CommonQueryMethods {
  let last: Promise<unknown> = Promise.resolve()
  const inTurn =
    (run: (...words: unknown[]) => Promise<unknown>) =>
    (...words: unknown[]) => {
      last = last.then(async () => {
        const left = Math.ceil(endsAt - performance.now())
        if (left <= 0) throw new OutOfTime()
        await tx.query(rowsOf(z.object({}))`SELECT set_config('statement_timeout', ${`${left}`}, true)`)
        return run(...words)
      })
      return last
    }
  const methods = Object.entries(tx).map(([name, method]) => [name, inTurn(method as never)])
  return Object.fromEntries(methods) as unknown as CommonQueryMethods
}

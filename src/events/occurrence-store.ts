/** SQL of events without a change of their own: which kinds are wanted, and a batch of new ones. */

import type { EventKind, NewEvent } from '../domain/event.ts'
import type { Database, Statement } from '../store/database.ts'

const WANTED: Statement = {
  name: 'events-wanted',
  text: 'SELECT DISTINCT unnest(kinds) AS kind FROM event_consumers',
}

/** Writers on the request path know ids; the columns of the row that consumers are told of are read here, once a batch. */
const WRITE: Statement = {
  name: 'events-write',
  // certificates_pkey, orders_pkey; accounts_pkey for each consumer that wants holders with a contact
  text: `
    WITH e AS MATERIALIZED (
      SELECT gen_random_uuid() AS event_id, u.*, u.given || CASE
        WHEN u.kind IN ('certificate.delivery', 'certificate.revocation_failed') THEN coalesce(
          (SELECT jsonb_build_object('row', jsonb_build_object(
                    'serial_number', c.serial_number, 'names', c.names, 'account_id', c.account_id))
             FROM certificates c WHERE c.id = u.subject::uuid), '{}')
        WHEN u.kind IN ('order.csr_refused', 'order.recovered') THEN coalesce(
          (SELECT jsonb_build_object('identifiers', o.identifiers) FROM orders o WHERE o.id = u.subject::uuid), '{}')
        ELSE '{}' END AS data
        FROM unnest($1::text[], $2::text[], $3::uuid[], $4::jsonb[])
             WITH ORDINALITY AS u (kind, subject, account_id, given, place)
    )
    INSERT INTO event_deliveries (consumer, event_id, kind, subject, account_id, occurred_at, data)
    SELECT c.name, e.event_id, e.kind, e.subject, e.account_id, clock_timestamp(), e.data
      FROM e JOIN event_consumers c ON e.kind = ANY (c.kinds)
     WHERE e.kind <> ALL (c.holder_kinds)
        OR (SELECT h.contacts <> '{}' FROM accounts h WHERE h.id = e.account_id)
     ORDER BY e.place`,
}

export async function readWantedKinds(db: Pick<Database, 'query'>): Promise<ReadonlySet<EventKind>> {
  const rows = await db.query<{ kind: EventKind }>(WANTED, [])
  return new Set(rows.map(({ kind }) => kind))
}

export async function writeEvents(db: Pick<Database, 'query'>, events: readonly NewEvent[]): Promise<void> {
  await db.query(WRITE, [
    events.map(({ kind }) => kind),
    events.map(({ subject }) => subject),
    events.map(({ accountId }) => accountId ?? null),
    events.map(({ data }) => jsonbOf(data)),
  ])
}

/** jsonb refuses U+0000 and lone surrogates, and clients choose names and texts. */
function jsonbOf(data: object): string {
  const json = JSON.stringify(data)
  if (!json.includes('\\u')) return json
  return JSON.stringify(data, (_name, value) =>
    // biome-ignore lint/suspicious/noControlCharactersInRegex: U+0000 is what is looked for
    typeof value === 'string' ? value.replace(/\u0000|\p{Surrogate}/gu, '\ufffd') : value,
  )
}

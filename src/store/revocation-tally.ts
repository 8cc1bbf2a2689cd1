/** SQL of revocations by commands, which have no metrics: kept in server_settings until an instance counts them. */

import type { Database, Statement } from './database.ts'

export interface RevocationTally {
  certificates: number
  /** With their binding credential. */
  accounts: number
}

const KEY = 'command_revocations'

const ADD: Statement = {
  name: 'revocation-tally-add',
  text: `
    INSERT INTO server_settings AS s (key, value)
    VALUES ('${KEY}', jsonb_build_object('certificates', $1::bigint, 'accounts', $2::bigint))
    ON CONFLICT (key) DO UPDATE SET value = jsonb_build_object(
      'certificates', (s.value->>'certificates')::bigint + $1, 'accounts', (s.value->>'accounts')::bigint + $2)`,
}

const TAKE: Statement = {
  name: 'revocation-tally-take',
  // server_settings_pkey, one row; of instances that ask at once, one gets it.
  text: `DELETE FROM server_settings WHERE key = '${KEY}' RETURNING value`,
}

export async function addRevocations(
  db: Pick<Database, 'query'>,
  { certificates, accounts }: RevocationTally,
): Promise<void> {
  if (certificates + accounts > 0) await db.query(ADD, [certificates, accounts])
}

/** @returns undefined when there were none since the last call by any instance */
export async function takeRevocations(db: Pick<Database, 'query'>): Promise<RevocationTally | undefined> {
  return (await db.query<{ value: RevocationTally }>(TAKE, []))[0]?.value
}

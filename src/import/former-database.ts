/** The PostgreSQL database of a former server: read row by row, as it is at one moment, and never written. */

import { readFileSync } from 'node:fs'
import { isLocalHost } from '../shared/lib/host.ts'
import pg, { type SslMode, tlsOptions } from '../store/pg.ts'
import { readPlainText } from '../store/session.ts'
import { UnusableSource } from './model.ts'

export interface FormerDatabase {
  hasTable(name: string): Promise<boolean>
  /** @param query a SELECT; its rows are read by the hundred */
  rows<Row>(query: string): AsyncGenerator<Row>
}

const ROWS_AT_ONCE = 200

/**
 * @param address such as postgres://reader@db.example.org/stepca?sslmode=require; PGPASSWORD or ~/.pgpass has the
 *   password, as for psql, since the process list shows the address
 */
export async function withFormerDatabase<T>(
  address: string,
  work: (database: FormerDatabase) => Promise<T>,
): Promise<T> {
  const client = new pg.Client(connectionOf(address))
  // A lost connection ends the query, and the query says so.
  client.on('error', () => undefined)
  try {
    await client.connect()
    await readPlainText(client)
    await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY')
  } catch (error) {
    throw new UnusableSource(`the former database cannot be reached: ${(error as Error).message}`, { cause: error })
  }
  try {
    return await work(formerDatabase(client))
  } finally {
    await client.end()
  }
}

function formerDatabase(client: pg.Client): FormerDatabase {
  let cursors = 0
  return {
    async hasTable(name) {
      const { rows } = await client.query('SELECT to_regclass($1) IS NOT NULL AS exists', [name])
      return rows[0].exists === true
    },
    async *rows<Row>(query: string) {
      const cursor = `former_${++cursors}`
      await client.query(`DECLARE ${cursor} NO SCROLL CURSOR FOR ${query}`)
      for (;;) {
        const { rows } = await client.query(`FETCH ${ROWS_AT_ONCE} FROM ${cursor}`)
        if (rows.length === 0) break
        yield* rows as Row[]
      }
      await client.query(`CLOSE ${cursor}`)
    },
  }
}

const SSL_MODES: readonly SslMode[] = ['disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full']

/** Keys and password hashes come from there: to another host only over TLS that is verified, unless told otherwise. */
function connectionOf(address: string) {
  if (!URL.canParse(address) || !/^postgres(?:ql)?:$/.test(new URL(address).protocol))
    throw new UnusableSource('--from takes an address such as postgres://reader@db.example.org/stepca')
  const url = new URL(address)
  if (url.password !== '')
    throw new UnusableSource(
      '--from takes no password, since the process list shows it; put it into PGPASSWORD or ~/.pgpass',
    )
  const { host: folder, port, user, sslmode, sslrootcert, ...others } = Object.fromEntries(url.searchParams)
  const [unknown] = Object.keys(others)
  if (unknown !== undefined)
    throw new UnusableSource(`--from takes host, port, user, sslmode and sslrootcert, and not ${unknown}`)
  const host = folder ?? url.hostname
  const mode = SSL_MODES.find((one) => one === (sslmode ?? (isLocalHost(host) ? 'prefer' : 'verify-full')))
  if (mode === undefined) throw new UnusableSource(`sslmode takes ${SSL_MODES.join(', ')}`)
  // pg would let parameters of the address overrule the options beside it.
  url.search = String(
    new URLSearchParams({ ...(folder && { host: folder }), ...(port && { port }), ...(user && { user }) }),
  )
  const roots = sslrootcert === undefined ? undefined : readFileSync(sslrootcert, 'utf8')
  return { connectionString: url.href, ssl: tlsOptions(host, mode, roots), application_name: 'chancery import' }
}

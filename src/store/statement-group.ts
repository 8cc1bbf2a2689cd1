/**
 * Sends a group of prepared statements in one write with one Sync, and reads the rows (protocol
 * 3.0).
 */

import type pg from './pg.ts'
import {
  type Column,
  columnsOf,
  parametersOf,
  readRow,
  type WireWriter,
  type WriteParameters,
  WireWriter as Writer,
} from './wire-values.ts'

/** A statement with a name is prepared once for each connection. */
export interface Statement {
  name: string
  text: string
}

/** A statement with the promise of its rows. */
export interface Wanted {
  statement: Statement
  values: readonly unknown[]
  resolve(rows: Record<string, unknown>[]): void
  reject(error: unknown): void
}

export interface GroupOutcome {
  /** When set, no promise is settled; nothing was committed, or the commit is unknown. */
  failure?: unknown
  /** The statement that ran when the group failed. */
  failed?: Wanted | undefined
  /** All but the statements with a value unfit for its type, which are rejected already. */
  sent: readonly Wanted[]
}

/** Messages and columns of a statement, the same on every connection. */
interface Prepared {
  /** Close, then Parse; closing an unknown statement does nothing. */
  parse: Buffer
  describe: Buffer
  /** Bind up to the parameters, without its length. */
  bind: Buffer
  write: WriteParameters
  /** Known after the first reply. */
  columns: Column[] | undefined
}

const prepared = new WeakMap<Statement, Prepared>()
/** Statements that are prepared on a connection. */
const parsedBy = new WeakMap<pg.PoolClient, Set<Statement>>()

function message(type: string, ...parts: readonly (string | Buffer)[]): Buffer {
  const body = Buffer.concat(parts.map((part) => (typeof part === 'string' ? Buffer.from(`${part}\0`) : part)))
  const head = Buffer.alloc(5)
  head.write(type)
  head.writeInt32BE(body.length + 4, 1)
  return Buffer.concat([head, body])
}

const int16s = (...values: number[]) => Buffer.from(values.flatMap((value) => [value >> 8, value & 0xff]))

function prepare(statement: Statement): Prepared {
  const { text } = statement
  // `pg` prepares statements under the plain name; the prefix keeps both apart.
  const name = `group ${statement.name}`
  const known: Prepared = {
    parse: Buffer.concat([message('C', Buffer.from('S'), name), message('P', name, text, int16s(0))]),
    describe: message('D', Buffer.from('S'), name),
    // The unnamed portal; all parameters binary.
    bind: Buffer.concat([Buffer.from('\0'), Buffer.from(`${name}\0`), int16s(1, 1)]),
    write: parametersOf(text),
    columns: undefined,
  }
  prepared.set(statement, known)
  return known
}

/** The unnamed portal, all rows. */
const EXECUTE = message('E', '', Buffer.alloc(4))
const SYNC = message('S')
const BIND = 'B'.charCodeAt(0)

/** All columns come as text. */
const NO_FORMATS = 0

function writeStatement(to: WireWriter, known: Prepared, isParsed: boolean, values: readonly unknown[]): void {
  if (!isParsed) to.raw(known.parse)
  if (!known.columns) to.raw(known.describe)
  to.reserve(5)
  to.bytes[to.at++] = BIND
  const start = to.at
  to.at += 4
  to.raw(known.bind)
  known.write(to, values)
  to.int16(NO_FORMATS)
  to.setInt32(start, to.at - start)
  to.raw(EXECUTE)
}

const writer = new Writer()

interface Part extends Wanted {
  known: Prepared
  rows: Record<string, unknown>[]
}

/** Sends a group and settles its statements after the commit. */
export function createGroup(client: pg.PoolClient, group: readonly Wanted[]): Promise<GroupOutcome> {
  const has = parsedBy.get(client) ?? new Set()
  parsedBy.set(client, has)
  const parts: Part[] = []
  const fresh = new Set<Statement>()
  writer.at = 0
  for (const one of group) {
    const { statement, values, reject } = one
    const start = writer.at
    try {
      const known = prepared.get(statement) ?? prepare(statement)
      writeStatement(writer, known, has.has(statement) || fresh.has(statement), values)
      if (!has.has(statement)) fresh.add(statement)
      parts.push({ ...one, known, rows: [] })
    } catch (error) {
      writer.at = start
      reject(error)
    }
  }
  if (parts.length === 0) return Promise.resolve({ sent: parts })
  writer.raw(SYNC)
  const bytes = Buffer.from(writer.bytes.subarray(0, writer.at))

  return new Promise((resolve) => {
    let at = 0
    client.query({
      submit: (connection: pg.Connection) => void connection.stream.write(bytes),
      handleRowDescription({ fields }: { fields: { name: string; dataTypeID: number }[] }) {
        ;(parts[at] as Part).known.columns = columnsOf(fields)
      },
      handleDataRow({ fields }: { fields: (string | null)[] }) {
        const { known, rows } = parts[at] as Part
        rows.push(readRow(known.columns ?? [], fields))
      },
      handleCommandComplete: () => void at++,
      /** Committed. */
      handleReadyForQuery() {
        this.callback()
      },
      handleError(error: unknown) {
        this.callback(error)
      },
      /** `pg` wraps this callback to stop its `query_timeout`. */
      callback(failure?: unknown) {
        if (failure) {
          resolve({ failure, failed: parts[at], sent: parts })
          return
        }
        for (const statement of fresh) has.add(statement)
        for (const { resolve: settle, rows } of parts) settle(rows)
        resolve({ sent: parts })
      },
    })
  })
}

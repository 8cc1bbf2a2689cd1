/** Ranges of serial numbers from a database sequence (`ca.serial_source: database`). */

import type { Database, Statement } from './database.ts'

const NEXT: Statement = {
  name: 'serial-range-next',
  text: "SELECT nextval('certificate_serial_ranges') AS range",
}

export async function nextSerialRange(db: Database): Promise<bigint> {
  const [row] = await db.query<{ range: string }>(NEXT, [])
  if (!row) throw new Error('nextval must give a row')
  return BigInt(row.range)
}

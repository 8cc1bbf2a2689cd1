/** The list of certificates as `chancery inspect certificates` reads it, from the database of a service in development mode. */

import { listCertificates } from '../../src/store/certificate-list.ts'
import { openCheckedDatabase } from '../../src/store/slonik.ts'
import { Failure } from '../client/failure.ts'
import { embeddedDatabase } from '../servers/embedded-database.ts'

/** A page of `inspect` when nobody says otherwise. */
const PAGE_ROWS = 50

/**
 * Opens a connection, which ends with the process, and tries it.
 * @returns a function that reads the first page and checks it, with Failure `database` or `check-certificates`
 */
export async function openCertificateList(dataDir: string): Promise<() => Promise<void>> {
  const db = await openCheckedDatabase(embeddedDatabase(dataDir))
  const read = async () => {
    const { rows } = await listCertificates(db, {}, undefined, PAGE_ROWS).catch((error: Error) => {
      throw new Failure('database', error.message)
    })
    if (rows.length === 0) throw new Failure('check-certificates', 'the list of certificates is empty')
    if (rows.some(({ id }, index) => index > 0 && id >= rows[index - 1]!.id))
      throw new Failure('check-certificates', 'the list of certificates does not begin with the newest')
  }
  await read()
  return read
}

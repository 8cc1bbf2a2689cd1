/** Which databases use one signer, as services announce them. Pure. */

export interface DatabasePlace {
  /** Its id: a copy has the same. */
  database: string
  /** Names server, timeline and database. A copy has another one (src/store/incarnation.ts). */
  incarnation: string
}

export interface SignerUse {
  others: readonly (DatabasePlace & { requester: string })[]
  /** False while another one may yet turn out to be there. */
  isSettled: boolean
}

export const SHARED = 'another database uses this signer'
export const PART_THEM = 'part them as docs/operations/failover.md#another-database-at-the-same-signer says'

/** For people. */
export const describeOthers = (own: DatabasePlace, { others }: SignerUse): string =>
  others
    .map(({ database, incarnation, requester }) => {
      const what = database === own.database ? 'a copy of this one' : `database ${database}`
      return `${what} in ${incarnation}, announced by ${requester} (this one is in ${own.incarnation})`
    })
    .join('; ')

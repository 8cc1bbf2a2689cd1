/** Which certificates an incident concerns, and whose they are. */

import type { CommonQueryMethods } from 'slonik'
import { accountName } from '../account-names.ts'
import { FIRST_ID, nextWindow, type RevocationFilter } from '../revocations/revocation-filter.ts'
import { findOwners, type Hit, hitsOf, type Owner } from './incident-store.ts'

export interface OwnerHit extends Omit<Hit, 'issuers'> {
  owner: Owner | undefined
}

export interface Hits {
  unrevoked: number
  revoked: number
  /** SHA-256 of the certificates of their issuers. */
  issuers: string[]
  /** The most certificates first. */
  owners: OwnerHit[]
  /** There are more owners than were kept. */
  isCut: boolean
}

/** More accounts than these are not told apart, nor written to at once. */
export const MOST_OWNERS = 2_000
const NAMES = 3

/** Reads what the filter matches now, owner by owner. */
export async function findHits(db: CommonQueryMethods, filter: RevocationFilter): Promise<Hits> {
  const until = new Date()
  const byAccount = new Map<string | null, Omit<Hit, 'issuers'>>()
  const issuers = new Set<string>()
  const total = { unrevoked: 0, revoked: 0, isCut: false }
  for (let afterId = FIRST_ID, isLast = false; !isLast; ) {
    const window = await nextWindow(db, filter, afterId)
    for (const hit of await hitsOf(db, filter, window, until)) {
      total.unrevoked += hit.unrevoked
      total.revoked += hit.revoked
      for (const issuer of hit.issuers) issuers.add(issuer)
      const known = byAccount.get(hit.account_id)
      if (known) addTo(known, hit)
      else if (byAccount.size < MOST_OWNERS) byAccount.set(hit.account_id, { ...hit })
      else total.isCut = true
    }
    isLast = window.endId === undefined
    afterId = window.endId ?? afterId
  }
  const owners = await findOwners(
    db,
    [...byAccount.keys()].filter((id) => id !== null),
  )
  const hits = [...byAccount.values()].map(({ account_id, unrevoked, revoked, names }) => ({
    account_id,
    unrevoked,
    revoked,
    names,
    owner: account_id === null ? undefined : owners.get(account_id),
  }))
  return { ...total, issuers: [...issuers], owners: hits.sort((a, b) => b.unrevoked - a.unrevoked) }
}

function addTo(known: Omit<Hit, 'issuers'>, { unrevoked, revoked, names }: Hit): void {
  known.unrevoked += unrevoked
  known.revoked += revoked
  known.names = [...new Set([...known.names, ...names])].slice(0, NAMES)
}

const isAddress = (contact: string) => /^mailto:/i.test(contact)

export const addressesOf = (owner: Owner | undefined): string[] =>
  (owner?.contacts ?? []).filter(isAddress).map((contact) => contact.slice('mailto:'.length))

export const nameOf = (owner: Owner | undefined): string | null =>
  owner ? accountName({ ...owner, eabKid: owner.kid }) : null

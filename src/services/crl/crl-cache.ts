/** The published CRLs, in memory that all front threads share. Each new one is read once. */

import { crlName } from '../../domain/crl-scope.ts'
import { allocateSharedBytes } from '../../shared/lib/shared-memory.ts'
import type { CrlStore, PublishedCrl } from '../../store/crl-store.ts'

/** A CRL as front threads serve it: plain data with shared memory, posted between threads. */
export interface ServedCrl {
  /** The part of its URL after `crl.path/`. */
  name: string
  issuerId: string
  etag: string
  thisUpdateMs: number
  nextUpdateMs: number
  der: Uint8Array
}

export interface CrlCache {
  /** By name. */
  served(): readonly ServedCrl[]
  /** The facts of each list that is served and published. */
  published(): readonly PublishedCrl[]
  /** Names of lists that are not served, because a later one was signed: relying parties may have that. */
  withheld(): readonly string[]
  /** Reads new lists. @throws database errors, which leave the cache unchanged */
  refresh(): Promise<void>
}

interface Cached {
  facts: PublishedCrl
  served: ServedCrl
}

/**
 * A database that went back to an earlier time publishes lists of lower numbers. None of them takes the place of one that is
 * served, and none is served first.
 *
 * @param newestSigned the newest number that the signer has signed for a list; undefined while that is not known
 */
export function createCrlCache(
  store: Pick<CrlStore, 'published' | 'piece'>,
  newestSigned: (crl: PublishedCrl) => bigint | undefined,
): CrlCache {
  let published: readonly PublishedCrl[] = []
  let cached: ReadonlyMap<string, Cached> = new Map()
  let withheld: readonly string[] = []
  let last: Promise<void> = Promise.resolve()

  async function load(crl: PublishedCrl): Promise<Cached | undefined> {
    const der = allocateSharedBytes(crl.bytes)
    let at = 0
    for (let piece = 0; at < crl.bytes; piece++) {
      const part = await store.piece(crl.issuerKey, crl.number, piece)
      // A later list has replaced it; the next `refresh` reads that one.
      if (!part || at + part.length > crl.bytes) return undefined
      der.set(part, at)
      at += part.length
    }
    const served = {
      name: crlName(crl.issuerId, crl),
      issuerId: crl.issuerId,
      etag: etagOf(crl),
      thisUpdateMs: crl.thisUpdate.getTime(),
      nextUpdateMs: crl.nextUpdate.getTime(),
      der,
    }
    return { facts: crl, served }
  }

  /** @returns undefined for a list that is withheld, or that is being replaced just now */
  async function choose(crl: PublishedCrl, current: Cached | undefined): Promise<Cached | undefined> {
    if (current?.facts.issuerKey.equals(crl.issuerKey)) {
      if (crl.number === current.facts.number) return { ...current, facts: crl }
      if (crl.number < current.facts.number) return current
      return (await load(crl)) ?? current
    }
    const floor = newestSigned(crl)
    return floor === undefined || crl.number < floor ? undefined : load(crl)
  }

  async function look(): Promise<void> {
    const found = await store.published()
    const [next, missing] = [new Map<string, Cached>(), new Set<string>()]
    for (const crl of found) {
      const name = crlName(crl.issuerId, crl)
      const chosen = await choose(crl, cached.get(name))
      if (chosen) next.set(name, chosen)
      else missing.add(name)
    }
    published = [...next.values()].map(({ facts }) => facts)
    for (const [name, one] of cached) if (!next.has(name) && isOlder(found, one.facts)) next.set(name, one)
    cached = next
    withheld = [...missing].filter((name) => !next.has(name))
  }

  return {
    served: () => [...cached.values()].map(({ served }) => served),
    published: () => published,
    withheld: () => withheld,
    refresh() {
      // Reads run one by one, so that an older result cannot overwrite a newer one.
      last = last.catch(() => undefined).then(look)
      return last
    },
  }
}

/** Whether the database has never had a list: each list of its issuer has a number of its own, and all are lower. */
function isOlder(found: readonly PublishedCrl[], { issuerKey, number, nextUpdate }: PublishedCrl): boolean {
  const isLower = found.every((crl) => !crl.issuerKey.equals(issuerKey) || crl.number < number)
  return isLower && nextUpdate.getTime() > Date.now()
}

/** A number means one list of its issuer. The issuer is included: the bare path may change it. */
function etagOf({ issuerKey, number }: PublishedCrl): string {
  return `"${issuerKey.toString('hex', 0, 4)}-${number.toString(16)}"`
}

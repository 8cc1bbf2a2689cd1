/**
 * The published lists, in memory that all front threads share. Each new number is read from the database once.
 */

import { crlName } from '../domain/crl-shard.ts'
import type { CrlStore, PublishedCrl } from '../store/crl-store.ts'

/** A list as fronts serve it; plain data with shared memory, so that it crosses threads as it is. */
export interface ServedCrl {
  /** Behind `crl.path/` in its URL. */
  name: string
  issuerId: string
  etag: string
  thisUpdateMs: number
  nextUpdateMs: number
  der: SharedArrayBuffer
}

export interface CrlCache {
  /** By name. */
  served(): readonly ServedCrl[]
  /** What the database says about them. */
  published(): readonly PublishedCrl[]
  /** Looks for new lists. @throws database errors; what was there stays */
  refresh(): Promise<void>
}

/** @param onChange called with all lists after each change */
export function createCrlCache(
  store: Pick<CrlStore, 'published' | 'piece'>,
  onChange: (crls: readonly ServedCrl[]) => void,
): CrlCache {
  let published: readonly PublishedCrl[] = []
  let served: readonly ServedCrl[] = []
  let last: Promise<void> = Promise.resolve()

  async function load(crl: PublishedCrl): Promise<ServedCrl | undefined> {
    const der = new SharedArrayBuffer(crl.bytes)
    const bytes = Buffer.from(der)
    let at = 0
    for (let piece = 0; at < crl.bytes; piece++) {
      const part = await store.piece(crl.issuerKey, crl.number, piece)
      // A later list has taken its place meanwhile; the next look finds that one.
      if (!part || at + part.length > crl.bytes) return undefined
      bytes.set(part, at)
      at += part.length
    }
    return {
      name: crlName(crl.issuerId, crl),
      issuerId: crl.issuerId,
      etag: etagOf(crl),
      thisUpdateMs: crl.thisUpdate.getTime(),
      nextUpdateMs: crl.nextUpdate.getTime(),
      der,
    }
  }

  async function look(): Promise<void> {
    const found = await store.published()
    const known = new Map(served.map((crl) => [`${crl.name} ${crl.etag}`, crl]))
    const next: ServedCrl[] = []
    for (const crl of found) {
      const name = crlName(crl.issuerId, crl)
      const current =
        known.get(`${name} ${etagOf(crl)}`) ?? (await load(crl)) ?? served.find((old) => old.name === name)
      if (current) next.push(current)
    }
    published = found
    if (next.length === served.length && next.every((crl, at) => crl === served[at])) return
    served = next
    onChange(served)
  }

  return {
    served: () => served,
    published: () => published,
    refresh() {
      // One read after the other, so that an older result cannot overwrite a newer one.
      last = last.catch(() => undefined).then(look)
      return last
    },
  }
}

/** One number is one list for ever; the issuer belongs to it, because the bare path may change from one to another. */
function etagOf({ issuerKey, number }: PublishedCrl): string {
  return `"${issuerKey.toString('hex', 0, 4)}-${number.toString(16)}"`
}

/**
 * The published CRLs, in memory that all front threads share. Each new one is read once.
 */

import { crlName } from '../domain/crl-scope.ts'
import type { CrlStore, PublishedCrl } from '../store/crl-store.ts'

/** A CRL as front threads serve it: plain data with shared memory, posted between threads. */
export interface ServedCrl {
  /** The part of its URL after `crl.path/`. */
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
  /** The facts of each published CRL. */
  published(): readonly PublishedCrl[]
  /** Reads new lists. @throws database errors, which leave the cache unchanged */
  refresh(): Promise<void>
}

export function createCrlCache(store: Pick<CrlStore, 'published' | 'piece'>): CrlCache {
  let published: readonly PublishedCrl[] = []
  let served: readonly ServedCrl[] = []
  let last: Promise<void> = Promise.resolve()

  async function load(crl: PublishedCrl): Promise<ServedCrl | undefined> {
    const der = new SharedArrayBuffer(crl.bytes)
    const bytes = Buffer.from(der)
    let at = 0
    for (let piece = 0; at < crl.bytes; piece++) {
      const part = await store.piece(crl.issuerKey, crl.number, piece)
      // A later list has replaced it; the next `refresh` reads that one.
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
    served = next
  }

  return {
    served: () => served,
    published: () => published,
    refresh() {
      // Reads run one by one, so that an older result cannot overwrite a newer one.
      last = last.catch(() => undefined).then(look)
      return last
    },
  }
}

/** A number means one list of its issuer. The issuer is included: the bare path may change it. */
function etagOf({ issuerKey, number }: PublishedCrl): string {
  return `"${issuerKey.toString('hex', 0, 4)}-${number.toString(16)}"`
}

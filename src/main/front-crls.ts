/** The published lists as one front thread serves them. */

import type { CrlDocument } from '../ops/crl.ts'
import type { ServedCrl } from '../services/crl-cache.ts'
import type { FrontCrls } from './front.ts'

export interface ThreadCrls extends FrontCrls {
  /** All lists there are now. */
  replace(crls: readonly ServedCrl[]): undefined
}

/** @param defaultIssuer whose list the bare path serves */
export function createFrontCrls(
  first: readonly ServedCrl[],
  defaultIssuer: () => string | undefined,
  maxAgeSeconds: number,
): ThreadCrls {
  let documents = documentsOf(first)
  return {
    maxAgeSeconds,
    find: (name) => documents.get(name === '' ? (defaultIssuer() ?? '') : name),
    replace(crls) {
      documents = documentsOf(crls)
      return undefined
    },
  }
}

/** The memory stays shared: a list of 50 MB is there once, however many threads serve it. */
function documentsOf(crls: readonly ServedCrl[]): ReadonlyMap<string, CrlDocument> {
  return new Map(crls.map(({ der, ...crl }) => [crl.name, { ...crl, der: Buffer.from(der) }]))
}

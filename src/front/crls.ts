/** Serves the published CRLs in one front thread. */

import type { SharedCrl } from '../main/messages.ts'
import type { CrlDocument } from '../ops/crl.ts'
import type { FrontCrls } from './operations.ts'

export interface ThreadCrls extends FrontCrls {
  /** Replaces all lists with these. */
  replace(crls: readonly SharedCrl[]): undefined
}

export function createFrontCrls(first: readonly SharedCrl[], maxAgeSeconds: number): ThreadCrls {
  let documents = documentsOf(first)
  return {
    maxAgeSeconds,
    find: (name) => documents.get(name),
    replace(crls) {
      documents = documentsOf(crls)
      return undefined
    },
  }
}

/** The bytes stay in shared memory: a 50 MB list exists once for all threads. */
function documentsOf(crls: readonly SharedCrl[]): ReadonlyMap<string, CrlDocument> {
  const documents = crls.map((crl): [string, CrlDocument] => [crl.name, { ...crl, der: Buffer.from(crl.der) }])
  return new Map([
    ...documents,
    ...documents.flatMap(([, document], at) => (crls[at]?.isDefault ? [['', document] as const] : [])),
  ])
}

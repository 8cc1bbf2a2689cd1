/** The published lists as one front thread serves them. */

import type { SharedCrl } from '../main/messages.ts'
import type { CrlDocument } from '../ops/crl.ts'
import type { FrontCrls } from './operations.ts'

export interface ThreadCrls extends FrontCrls {
  /** All lists there are now. */
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

/** The memory stays shared: a list of 50 MB is there once, however many threads serve it. */
function documentsOf(crls: readonly SharedCrl[]): ReadonlyMap<string, CrlDocument> {
  const documents = crls.map((crl): [string, CrlDocument] => [crl.name, { ...crl, der: Buffer.from(crl.der) }])
  return new Map([
    ...documents,
    ...documents.flatMap(([, document], at) => (crls[at]?.isDefault ? [['', document] as const] : [])),
  ])
}

/** Gives certificates that an earlier release has imported all their names in their canonical spelling (docs/decisions/identifiers.md). */

import { readNames } from '../domain/certificate-names.ts'
import type { CertificateNamesStore } from '../store/certificate-names-store.ts'
import type { RetentionStore } from '../store/retention-store.ts'

const WALK = 'certificate_names'
/** Once for a database. */
const PAUSE_SECONDS = 1e9

/** @returns one round of the walk, which begins again where it was interrupted; undefined once any instance has ended it */
export function renameCertificates(store: CertificateNamesStore, progress: Pick<RetentionStore, 'isDue' | 'finish'>) {
  let afterId: string | undefined = '00000000-0000-0000-0000-000000000000'
  return async (): Promise<number | undefined> => {
    if (afterId !== undefined && !(await progress.isDue(WALK, PAUSE_SECONDS))) afterId = undefined
    if (afterId === undefined) return undefined
    const { changed, end } = await store.rename(afterId, readNames)
    if (end === undefined) await progress.finish(WALK)
    afterId = end
    return changed
  }
}

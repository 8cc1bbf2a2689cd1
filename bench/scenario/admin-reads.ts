/**
 * What an administrator reads while clients are served: the page of metrics, as Prometheus asks for it, and the newest certificates, as
 * `chancery inspect certificates` finds them in the database.
 *
 * Only of services that the bench has started: of others nobody has told it where these are.
 */

import { checkMetrics } from '../check/metrics.ts'
import type { AcmeClient } from '../client/acme.ts'
import type { Context } from './scenario.ts'

/** One administrator in each generator process. */
export function administrator() {
  let list: Promise<() => Promise<void>> | undefined
  return {
    /** Before the clock starts: to load the modules and connect takes longer than many reads. */
    async prepare({ dataDir }: Context): Promise<void> {
      if (dataDir === undefined) return
      list ??= import('./certificate-list.ts').then(({ openCertificateList }) => openCertificateList(dataDir))
      await list
    },
    /** Nothing where there is nothing to read. @throws Failure */
    async read(client: AcmeClient, { directoryUrl, timed }: Context): Promise<void> {
      if (!list) return
      checkMetrics(await client.get('metrics', new URL('/metrics', directoryUrl).href))
      await timed('certificate-list', await list)
    },
  }
}

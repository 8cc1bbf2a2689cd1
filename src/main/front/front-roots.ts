/** The trust bundle of a front thread (`api.roots_path`), and a word at the start about roots that it lacks. */

import type { Logger } from 'pino'
import type { CaBackend } from '../../ca/backend.ts'
import type { Config } from '../../config/schema.ts'
import { createTrustBundle, readRootsPem, type TrustBundle } from '../../services/trust-bundle.ts'

export interface RootParts {
  ca: Pick<CaBackend, 'issuers'>
  log: Logger
}

/** @param rootsPem text of `api.roots_file`, checked */
export function createFrontRoots(
  { api }: Config,
  { ca }: Pick<RootParts, 'ca'>,
  rootsPem: string,
): (() => TrustBundle) | undefined {
  return api.roots_path === null ? undefined : createTrustBundle(ca.issuers, readRootsPem(rootsPem))
}

export function warnOfMissingRoots(config: Config, { ca, log }: RootParts, rootsPem: string): void {
  const { rootless = [] } = createFrontRoots(config, { ca }, rootsPem)?.() ?? {}
  if (rootless.length > 0)
    log.warn(
      { issuers: rootless },
      'api.roots_path serves no root of these issuers; name a file with it in api.roots_file',
    )
}

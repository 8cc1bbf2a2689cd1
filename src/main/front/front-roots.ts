/** The trust bundle of a front thread (`api.roots_path`), and a word at the start about roots that it lacks. */

import type { Logger } from 'pino'
import type { CaBackend } from '../../ca/backend.ts'
import { hasSigner } from '../../config/backends.ts'
import type { Config } from '../../config/schema.ts'
import type { FrontOptions } from '../../front/front.ts'
import { createTrustBundle, readRootsPem } from '../../services/trust-bundle.ts'

export interface RootParts {
  ca: Pick<CaBackend, 'issuers'>
  log: Logger
}

/** @param rootsPem text of `api.roots_file`, checked */
export function createFrontRoots(
  config: Config,
  { ca }: Pick<RootParts, 'ca'>,
  rootsPem: string,
): FrontOptions['roots'] {
  if (config.api.roots_path === null) return undefined
  const bundle = createTrustBundle(ca.issuers, readRootsPem(rootsPem))
  // A thread knows no issuer before its own connection to the signer is made.
  return () => (hasSigner(config) && ca.issuers().length === 0 ? undefined : bundle())
}

export function warnOfMissingRoots(config: Config, { ca, log }: RootParts, rootsPem: string): void {
  const { rootless = [] } = createFrontRoots(config, { ca }, rootsPem)?.() ?? {}
  if (rootless.length > 0)
    log.warn(
      { issuers: rootless },
      'api.roots_path serves no root of these issuers; name a file with it in api.roots_file',
    )
}

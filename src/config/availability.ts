/**
 * Features and keys that this version accepts but does not implement.
 *
 * The key tree is complete, so the configuration of a later version can be read. Enabling an absent
 * feature is an error, and so is any setting of it while enabled. A new feature removes its row;
 * `test/unit/config/effect.test.ts` finds keys that belong here.
 */

import { formatPath, type Path } from '../shared/config-file/notice.ts'
import type { Config } from './schema.ts'
import { LEAVES } from './schema.ts'

export interface AbsentFeature {
  /** The key that switches the feature on. */
  path: string
  feature: string
  /** Keys that use the feature; empty when it is off. */
  uses(config: Config): readonly string[]
  /** Keys that only the feature reads; a section means all its keys. */
  keys: readonly string[]
  /** The alternative, if there is one. */
  instead?: string
}

const when = (
  path: string,
  feature: string,
  used: (config: Config) => boolean,
  keys: readonly string[] = [path],
): AbsentFeature => ({
  path,
  feature,
  uses: (config) => (used(config) ? [path] : []),
  keys,
})

export const ABSENT_FEATURES: readonly AbsentFeature[] = [
  {
    ...when(
      'ct_logging.submit_precert',
      'to embed timestamps, the signer would have to sign each certificate twice, which is',
      (c) => c.ct_logging.enabled && c.ct_logging.submit_precert,
    ),
    instead: 'set it to false, and certificates are submitted once they are issued',
  },
]

export interface Inert {
  path: string
  /** Why the key has no effect; undefined for a value that requests none. Reported at the key. */
  because(config: Config): string | undefined
}

/** Keys of existing configurations without any effect here. Each is a warning, not an error. */
export const WITHOUT_EFFECT: readonly Inert[] = [
  {
    path: 'server.worker_class',
    because: ({ server }) =>
      server.worker_class === 'thread'
        ? undefined
        : `${server.worker_class} means the same as thread here; database.max_connections counts for all threads together`,
  },
  {
    path: 'nonce.length',
    because: () => 'has no effect: every nonce is 16 bytes long, which are 22 characters',
  },
]

const isWithin = (key: string, holder: string) => key === holder || key.startsWith(`${holder}.`)

/** Every key of the feature that a file can set. */
export const keysOfFeature = ({ keys }: AbsentFeature): string[] =>
  LEAVES.map(({ path }) => formatPath(path)).filter((key) => keys.some((holder) => isWithin(key, holder)))

/** Whether no code of this version reads the key. */
export function isInert(path: Path): boolean {
  const key = formatPath(path)
  return (
    WITHOUT_EFFECT.some((entry) => entry.path === key) ||
    ABSENT_FEATURES.some(({ keys }) => keys.some((holder) => isWithin(key, holder)))
  )
}

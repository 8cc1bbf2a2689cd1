/** `db rollback-point` for a reader. */

import { fourDigits } from '../../store/schema/migration-files.ts'
import type { RollbackPoint } from '../../store/schema/schema-state.ts'

export function renderRollbackPoint({ schema, oldestRelease, without, excluded, next }: RollbackPoint): string[] {
  const releases =
    oldestRelease === undefined
      ? 'a newer release has migrated it, and does not say which others can serve on it'
      : `releases from ${fourDigits(oldestRelease)} on that have this command can serve on it: install one and restart, the database stays as it is`
  return [
    `the database has schema ${fourDigits(schema)}`,
    releases,
    ...without.map(({ name, goingBack }) => `  without ${name}: ${goingBack ?? 'nothing is missed'}`),
    next
      ? `until ${next.name}, which is pending: after it, only those from ${fourDigits(next.contract)} on`
      : 'no pending migration changes that',
    ...(excluded ? [renderExcluded(excluded)] : []),
  ]
}

function renderExcluded({
  name,
  appliedAt,
  certificates,
  revocations,
}: NonNullable<RollbackPoint['excluded']>): string {
  const since = `${certificates.toLocaleString('en')} certificates and ${revocations.toLocaleString('en')} revocations since`
  return `${name} excluded older ones at ${appliedAt.toISOString()}: they need a backup from before, without the ${since}`
}

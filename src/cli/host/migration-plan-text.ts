/** `db migrate --plan` for a reader: a block a migration, two lines a lock. */

import { fourDigits } from '../../store/schema/migration-files.ts'
import type { PlannedMigration, PlannedStep } from '../../store/schema/migration-plan.ts'

export function renderPlan(migrations: readonly PlannedMigration[]): string[] {
  if (migrations.length === 0) return ['nothing to do: the schema is current']
  return [...migrations.flatMap(renderMigration), 'nothing was changed']
}

function renderMigration({ name, isConcurrent, contract, steps }: PlannedMigration): string[] {
  const locking = steps.filter(({ lock }) => lock !== undefined)
  return [
    `${name}, ${isConcurrent ? 'each statement alone' : 'one transaction'}`,
    ...(contract === undefined ? [] : [`  after it, releases before ${fourDigits(contract)} cannot serve`]),
    ...(locking.length === 0 ? ['  locks no table that is there'] : locking.flatMap(renderStep)),
  ]
}

const WIDTH = 110

function renderStep({ statement, table, lock, keepsWaiting, lasts, rows, bytes, seconds }: PlannedStep): string[] {
  const size =
    bytes === undefined ? 'new' : [rows === undefined ? 'not counted' : plural(rows), bytesOf(bytes)].join(', ')
  const time = lasts === 'moment' ? 'for a moment' : `read whole, about ${duration(seconds ?? 0)}`
  const who =
    keepsWaiting === 'nobody' ? 'nobody waits' : `${keepsWaiting} wait${keepsWaiting === 'everybody' ? 's' : ''}`
  const line = statement.replaceAll(/\s+/g, ' ')
  return [
    `  ${table} (${size}): ${time}, ${who} (${lock})`,
    `    ${line.length > WIDTH ? `${line.slice(0, WIDTH)}…` : line}`,
  ]
}

const plural = (rows: number) => `${rows.toLocaleString('en')} row${rows === 1 ? '' : 's'}`

function bytesOf(bytes: number): string {
  const unit =
    bytes < 2 ** 20
      ? (['KiB', 2 ** 10] as const)
      : bytes < 2 ** 30
        ? (['MiB', 2 ** 20] as const)
        : (['GiB', 2 ** 30] as const)
  const amount = bytes / unit[1]
  return `${amount < 10 ? amount.toFixed(1) : amount.toFixed(0)} ${unit[0]}`
}

const duration = (seconds: number) => (seconds < 120 ? `${seconds} s` : `${Math.ceil(seconds / 60)} min`)

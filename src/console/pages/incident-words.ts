/** Words about incidents that several parts of their pages show. */

import type { Output } from '../api.ts'

export type Examination = Output<'examineIncident'>

const FILTERS: Readonly<Record<string, string>> = {
  spki_sha256: 'key',
  account_id: 'account',
  eab_kid: 'kid',
  domain: 'name',
  domain_suffix: 'name and below',
}

/** `name and below: example.com`. */
export const filterText = (filter: Readonly<Record<string, string>>): string =>
  Object.entries(filter)
    .map(([member, value]) => `${FILTERS[member] ?? member}: ${value}`)
    .join(', ')

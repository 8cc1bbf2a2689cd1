/** Words about incidents that several parts of their pages show. */

import { REVOCATION_FILTERS } from '../../admin/resources/certificates.ts'
import type { Filters } from '../../admin/resources/filter.ts'
import type { Output } from '../api.ts'

export type Examination = Output<'examineIncident'>

/** A filter that an incident or a bulk revocation keeps, in words. */
export const filterLabel = (name: string): string => FILTERS[name]?.label ?? name
const FILTERS: Filters = REVOCATION_FILTERS

/** `Exact name: www.example.com`. */
export const filterText = (filter: Readonly<Record<string, string>>): string =>
  Object.entries(filter)
    .map(([name, value]) => `${filterLabel(name)}: ${value}`)
    .join(', ')

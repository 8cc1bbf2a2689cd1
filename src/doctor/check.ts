/** The form of a check of `chancery doctor`. */

import type { Sources } from './sources.ts'
import type { Area, Found } from './verdict.ts'

export interface Check {
  id: `${Area}.${string}`
  /** A sentence that is true when the check finds nothing. */
  title: string
  look(sources: Sources): Found | Promise<Found>
}

export const areaOf = ({ id }: Pick<Check, 'id'>): Area => id.slice(0, id.indexOf('.')) as Area

/** Conditions in SQL of the members of a filter, in the words of the query. */

import type { Fragment } from '../store/list-page.ts'

/** A time is a text where a filter is kept as JSON. */
type At<V> = V extends Date ? Date | string : V

/** The condition of each member, or several. */
export type Conditions<F> = { [K in keyof F]-?: (value: At<NonNullable<F[K]>>) => Fragment | readonly Fragment[] }

/** The conditions of the members that are given. */
export const allGiven = <F extends object>(conditions: Conditions<F>, filter: F): Fragment[] =>
  Object.entries(filter).flatMap(([member, value]) =>
    value === undefined ? [] : conditions[member as keyof F](value as never),
  )

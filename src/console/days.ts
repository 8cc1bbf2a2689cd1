/** Days in fields and addresses: a day is whole, in UTC. Pure. */

const DAY = /^\d{4}-\d\d-\d\d$/
export const isDay = (text: string): boolean => DAY.test(text)

/** The last millisecond of a day in UTC; another time stays as it is. */
export const endOfDay = (text: string): string => (isDay(text) ? `${text}T23:59:59.999Z` : text)

/**
 * Makes days of a query whole days. `…_before` is exclusive, so its day becomes the next midnight. `until` becomes
 * the end of its day.
 */
export const withWholeDays = <Q extends Readonly<Record<string, string>>>(query: Q): Q =>
  Object.fromEntries(
    Object.entries(query).map(([name, value]) => {
      const end = Date.parse(endOfDay(value)) + 1
      // The service refuses a day that does not exist.
      if (!isDay(value) || Number.isNaN(end)) return [name, value]
      if (name.endsWith('_before')) return [name, new Date(end).toISOString()]
      return [name, name === 'until' ? endOfDay(value) : value]
    }),
  ) as Q

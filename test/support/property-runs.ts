/** How often a property is tried: a few thousand times in every run, many more in a nightly one (CHANCERY_NIGHTLY=1). */

const NIGHTLY = process.env['CHANCERY_NIGHTLY'] === '1'

/** At least 100,000 mutated inputs through each parser that strangers reach. */
const NIGHTLY_RUNS = 100_000

export function propertyRuns(everyTime: number): { numRuns: number } {
  return { numRuns: NIGHTLY ? Math.max(NIGHTLY_RUNS, everyTime) : everyTime }
}

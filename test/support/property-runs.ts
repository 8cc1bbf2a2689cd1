/** How often a property is tried: some hundred times in every run, many more in a nightly one (CHANCERY_NIGHTLY=1). */

const NIGHTLY = process.env['CHANCERY_NIGHTLY'] === '1'

/** At least 100,000 mutated inputs through each parser that strangers reach. */
const NIGHTLY_RUNS = 100_000

/** Finds in days what a thousand more find in one run. */
const EVERY_TIME = 400

export const propertyRuns = (everyTime = EVERY_TIME): { numRuns: number } => ({
  numRuns: NIGHTLY ? NIGHTLY_RUNS : everyTime,
})

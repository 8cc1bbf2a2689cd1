/** How often a property is tried: some hundred times in every run, many more in a nightly one (CHANCERY_NIGHTLY=1). */

import fc from 'fast-check'

const NIGHTLY = process.env['CHANCERY_NIGHTLY'] === '1'

/** At least 100,000 mutated inputs through each parser that strangers reach. */
const NIGHTLY_RUNS = 100_000

/** Finds in days what a thousand more find in one run. */
const EVERY_TIME = 400

export const propertyRuns = (everyTime = EVERY_TIME): { numRuns: number } => ({
  numRuns: NIGHTLY ? NIGHTLY_RUNS : everyTime,
})

type Drawn = [unknown, ...unknown[]]
type Arbitraries<Ts extends Drawn> = { [K in keyof Ts]: fc.Arbitrary<Ts[K]> }
/** Arbitraries, and what holds of all that they draw. */
// biome-ignore lint/suspicious/noConfusingVoidType: as fast-check has it
type Property<Ts extends Drawn> = [...arbitraries: Arbitraries<Ts>, holds: (...drawn: Ts) => boolean | void]

/** A property that is tried a hundred times. */
export function forAll<Ts extends Drawn>(...property: Property<Ts>): void {
  fc.assert(fc.property(...property))
}

/** A property of what strangers may send, which is tried as often as `propertyRuns` says. */
export function forAnyInput<Ts extends Drawn>(...property: Property<Ts>): void {
  fc.assert(fc.property(...property), propertyRuns())
}

/** One that is tried as often as it says. */
export function forAllIn<Ts extends Drawn>(runs: { numRuns: number }, ...property: Property<Ts>): void {
  fc.assert(fc.property(...property), runs)
}

/** One that takes a while. */
export async function forAllAsync<Ts extends Drawn>(
  numRuns: number,
  ...property: [...arbitraries: Arbitraries<Ts>, holds: (...drawn: Ts) => Promise<void>]
): Promise<void> {
  await fc.assert(fc.asyncProperty(...property), { numRuns })
}

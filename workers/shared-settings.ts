/**
 * Sends shared settings to the threads once, at their start. A job refers to them by place.
 *
 * Copying a configuration with each job would double the cost of sending it. Only identical objects
 * are recognised, at any depth but not inside lists.
 */

interface Place {
  sharedPlace: number
}

export type Places = ReadonlyMap<unknown, number>

export function placesOf(settings: readonly object[]): Places {
  return new Map(settings.map((one, place) => [one, place]))
}

/** A copy of a job, with places instead of shared settings. */
export function withoutShared<T extends object>(job: T, places: Places): T {
  const copy: T = { ...job }
  for (const member in copy) {
    const value: unknown = copy[member]
    if (typeof value !== 'object' || value === null) continue
    const place = places.get(value)
    const short =
      place !== undefined
        ? ({ sharedPlace: place } satisfies Place)
        : isList(value)
          ? value
          : withoutShared(value, places)
    copy[member] = short as T[typeof member]
  }
  return copy
}

/** Restores the settings. It changes the job in place, as the job is a copy already. */
export function withShared<T extends object>(job: T, settings: readonly object[]): T {
  for (const member in job) {
    const value: unknown = job[member]
    if (typeof value !== 'object' || value === null || isList(value)) continue
    const full = 'sharedPlace' in value ? settings[(value as Place).sharedPlace] : withShared(value, settings)
    job[member] = full as T[typeof member]
  }
  return job
}

const isList = (value: object) => Array.isArray(value)

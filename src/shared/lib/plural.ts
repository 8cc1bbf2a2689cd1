/** A count with its noun: `1 alarm`, `3 alarms`. */
export const plural = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? '' : 's'}`

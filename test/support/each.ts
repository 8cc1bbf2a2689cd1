/** @returns this member of each; of several names, their values as a list */
export function each<T, K extends keyof T>(list: readonly T[], name: K): T[K][]
export function each<T, const K extends readonly (keyof T)[]>(
  list: readonly T[],
  ...names: K
): { [I in keyof K]: T[K[I]] }[]
export function each<T>(list: readonly T[], ...names: (keyof T)[]): unknown[] {
  const [only] = names
  return list.map((one) => (names.length === 1 && only !== undefined ? one[only] : names.map((name) => one[name])))
}

/** The DNS names of a run: fresh for every order, and each says which account ordered it. */

/**
 * `<run>-<account>-<number><suffix>`, numbers in base 36, such as `bk3x9-1c-7p.test`.
 * @param runId Different for every process of every run, so that nothing authorised before is ever reused.
 */
export function nameMaker(runId: string, suffix: string): (accountIndex: number) => string {
  let count = 0
  return (accountIndex) => `${runId}-${accountIndex.toString(36)}-${(count++).toString(36)}${suffix}`
}

/** The account that ordered a name; NaN for a name that is not ours. */
export function accountIndexOf(name: string): number {
  return Number.parseInt(name.split('-')[1] ?? '', 36)
}

/** Where responders look for the thumbprint of an account that has changed its key; no DNS name. */
export function thumbprintName(accountIndex: number): string {
  return `account ${accountIndex}`
}

/** How a service says that the account it acted for is not the one that was cached. */

import { STALE_ACCOUNT, type StaleAccount } from '../store/account-store.ts'

/** Caught by the ACME layer alone: it looks the account up again, checks the request again, and repeats it once. */
export class StaleAccountError extends Error {
  constructor() {
    super('the account or its key has changed')
    this.name = 'StaleAccountError'
  }
}

export function unlessStale<T>(result: T | StaleAccount): T {
  if (result === STALE_ACCOUNT) throw new StaleAccountError()
  return result as T
}

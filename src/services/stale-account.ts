/** The error of a service whose cached account is stale. */

import { STALE_ACCOUNT, type StaleAccount } from '../store/account-store.ts'

/** The ACME layer catches it, reads the account and checks the request again, and retries once. */
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

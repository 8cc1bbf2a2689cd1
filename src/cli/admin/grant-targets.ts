/** Targets of grants: an account by its id, or a credential by its key id. */

import { optional, UsageError, type Values } from '../../shared/command-line.ts'
import { isUuid } from '../../shared/lib/uuid.ts'
import { CommandError, Refusal, text, uuid } from '../values.ts'

export const TARGET = {
  account: optional('Account id, the last part of the account URL', uuid),
  eab: optional('Key id of a credential of external account binding', text),
}
export type GrantTarget = Values<typeof TARGET>

/** @throws UsageError for neither and for both */
export function requireOneTarget({ account, eab }: GrantTarget): void {
  if ((account === undefined) === (eab === undefined)) throw new UsageError('give either --account ID or --eab KID')
}

export function accountTarget(id = ''): GrantTarget {
  if (isUuid(id.toLowerCase())) return { account: id.toLowerCase(), eab: undefined }
  throw new UsageError(`${JSON.stringify(id)} is no account id; it is the last part of the account URL`)
}

/** Names the account when there is none. */
export function ofAccount<T>(accountId: string, work: Promise<T>): Promise<T> {
  return work.catch((error: unknown) => {
    const isUnknown = error instanceof Refusal && error.status === 404
    throw isUnknown ? new CommandError(`there is no account ${accountId}`) : error
  })
}

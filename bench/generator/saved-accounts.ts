/**
 * Accounts that are used again (`--accounts-file`): one line each, `x y d url orders`, behind a line with the directory's URL.
 *
 * The keys are in the clear, so the file is for its owner only. With x and y beside d nothing has to be computed when it is
 * read: 100,000 accounts are there in a second, where registering them takes half a minute.
 */

import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { type Account, accountOf } from '../client/account.ts'
import type { NewKey } from '../client/signer.ts'

export function lineOf({ key, url, ordersUrl }: Account): string {
  return [key.jwk.x, key.jwk.y, key.secret(), url, ordersUrl ?? ''].join(' ')
}

/** @throws Error for a line that is none */
export function accountFromLine(line: string, index: number, newKey: NewKey): Account {
  const [x, y, d, url, orders] = line.split(' ')
  if (!x || !y || !d || !url) throw new Error(`not a saved account: ${line.slice(0, 20)}…`)
  return accountOf(index, url, newKey({ x, y, d }), orders || undefined)
}

/** @returns none when there is no such file. @throws Error when it is of another directory */
export function readSavedAccounts(file: string, directoryUrl: string): string[] {
  if (!existsSync(file)) return []
  const [directory, ...lines] = readFileSync(file, 'latin1').split('\n').filter(Boolean)
  if (directory !== directoryUrl) throw new Error(`the accounts in ${file} are of ${directory}, not of ${directoryUrl}`)
  return lines
}

export function writeSavedAccounts(file: string, directoryUrl: string, lines: readonly string[]): void {
  writeFileSync(file, `${[directoryUrl, ...lines].join('\n')}\n`, { mode: 0o600 })
}

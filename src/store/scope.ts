/** SQL of a registrar's scope: whether a row has one of its tags. A row without tags is in no scope. */

import type { Scope } from '../domain/permissions.ts'
import { ALL_ROWS, type Fragment } from './list-page.ts'
import { sql } from './slonik.ts'

/** accounts_tags, whose condition is repeated. @param table with a column `tags` */
export const hasTagOf = (table: Fragment, scope: readonly string[]): Fragment =>
  sql.fragment`${table}.tags && ${sql.array([...scope], 'text')} AND ${table}.tags <> '{}'`

/** @param table with a column `tags` */
export const isInScope = (table: Fragment, scope: Scope): Fragment =>
  scope === undefined ? ALL_ROWS : hasTagOf(table, scope)

/** For rows that another index finds: as a join, it would begin with all accounts. Without an account it is null. */
export const isAccountInScope = (accountId: Fragment, scope: Scope): Fragment =>
  scope === undefined
    ? ALL_ROWS
    : sql.fragment`(SELECT ${hasTagOf(sql.fragment`s`, scope)} FROM accounts s WHERE s.id = ${accountId})`

/** The same for many rows that another index finds: by a hash of the accounts, as `IS TRUE` keeps it from becoming a join. */
export const isAmongAccountsOf = (accountId: Fragment, scope: Scope): Fragment =>
  scope === undefined
    ? ALL_ROWS
    : sql.fragment`(${accountId} IN (SELECT s.id FROM accounts s WHERE ${hasTagOf(sql.fragment`s`, scope)})) IS TRUE`

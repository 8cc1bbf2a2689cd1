/** Which roles may do what. Gate, OpenAPI document, manual, console and role test are made from this table. */

import { AdminError } from './admin-error.ts'
import { ROLES, type Role } from './administrator.ts'

/** Each endpoint of the Admin API names one of these, or none for an endpoint without a token. */
export const PERMISSIONS = {
  /** The own session, password, user and requests for approval. */
  use_session: ['admin', 'auditor', 'operator', 'registrar'],
  /** All but credentials and allowed identifiers. */
  read: ['admin', 'auditor', 'operator'],
  /** Accounts with their orders, authorizations, certificates and failures, and the settings that concern them. */
  read_accounts: ['admin', 'auditor', 'operator', 'registrar'],
  /** Bulk revocation, blocked keys, CRLs, maintenance, the signing switch, notifications and events. */
  operate: ['admin', 'operator'],
  revoke: ['admin', 'operator', 'registrar'],
  advise_renewal: ['admin', 'operator', 'registrar'],
  /** Credentials, and names and tags of accounts. */
  onboard: ['admin', 'registrar'],
  /** Users, API tokens, policy, terms, and what credentials and accounts are granted. */
  administer: ['admin'],
} as const satisfies Record<string, readonly Role[]>

export type Permission = keyof typeof PERMISSIONS

/** A registrar sees and changes only what has one of its tags. Other roles know no such bound. */
const SCOPED_ROLE = 'registrar' satisfies Role
export const isScoped = (role: Role): boolean => role === SCOPED_ROLE
/** A user may have these without tags. */
export const UNSCOPED_ROLES: readonly Role[] = ROLES.filter((role) => !isScoped(role))

/** An endpoint with one of these says how it keeps to the tags of a registrar. */
export type ScopedPermission = {
  [P in Permission]: typeof SCOPED_ROLE extends (typeof PERMISSIONS)[P][number] ? P : never
}[Permission]

/** A registrar reaches these things through an endpoint; its description names one. */
export const SCOPES = {
  self: 'its own session, user and requests for approval',
  accounts: 'accounts with one of its tags, and what belongs to them',
  credentials: 'credentials with one of its tags',
  settings: 'settings that its clients need',
} as const
export type ScopeName = keyof typeof SCOPES

export const SCOPE_RULE = 'must have one or more tags for the role registrar, and none for other roles'

/** Tags that bound what is reached; undefined for a role without such a bound. */
export type Scope = readonly string[] | undefined

export const rolesOf = (permission: Permission): readonly Role[] => PERMISSIONS[permission]

/** Without tags, a registrar reaches nothing. */
export const scopeOf = ({ role, scope = [] }: { role: Role; scope?: readonly string[] }): Scope =>
  isScoped(role) ? scope : undefined

/** Whether a role may do all that another one may, wherever that one may. */
const includes = (role: Role, other: Role): boolean =>
  role === other ||
  (!isScoped(role) &&
    Object.values<readonly Role[]>(PERMISSIONS).every((roles) => !roles.includes(other) || roles.includes(role)))

/**
 * Whether an author may give a row these tags in place of others: a registrar adds and takes away its own alone, and has a
 * tag of the row before and afterwards.
 */
export function mayRetag(scope: Scope, before: readonly string[], after: readonly string[]): boolean {
  if (scope === undefined) return true
  const changed = [...before.filter((tag) => !after.includes(tag)), ...after.filter((tag) => !before.includes(tag))]
  const isIn = (tag: string) => scope.includes(tag)
  return before.some(isIn) && after.some(isIn) && changed.every(isIn)
}

/** @throws AdminError forbidden */
export function requireMayRetag(scope: Scope, before: readonly string[], after: readonly string[]): void {
  if (mayRetag(scope, before, after)) return
  throw new AdminError(
    'forbidden',
    `you may add and remove only the tags that you look after, and one of them must stay: ${scope?.join(', ')}`,
  )
}

/** Roles have no order: of an auditor and a registrar none is the lesser. @returns undefined for such a pair */
export function lesserRole(one: Role, other: Role): Role | undefined {
  if (includes(one, other)) return other
  return includes(other, one) ? one : undefined
}

/** The role and tags that hold for an API token: never more than its own, and never more than its maker's. */
export function lesserAuthority(token: Authority, maker: Authority): Authority | undefined {
  const role = lesserRole(token.role, maker.role)
  if (role === undefined) return undefined
  const [own, makers] = [scopeOf(token), scopeOf(maker)]
  return { role, scope: (own ?? makers ?? []).filter((tag) => makers?.includes(tag) ?? true) }
}

export interface Authority {
  role: Role
  scope: readonly string[]
}

/** Whether one may do all that the other may. */
export function includesAuthority(one: Authority, other: Authority): boolean {
  const [wide, narrow] = [scopeOf(one), scopeOf(other)]
  const hasTags = wide === undefined || narrow?.every((tag) => wide.includes(tag)) === true
  return hasTags && includes(one.role, other.role)
}

export const MOST_TAGS = 10
export const TAG_RULE = 'must be 1 to 40 lower-case letters, digits and inner hyphens'
export const isTag = (text: string) => /^[a-z\d](?:[a-z\d-]{0,38}[a-z\d])?$/.test(text)

/** What the claims of an OpenID Connect provider make of a person: a user with a role, or a refusal. Pure. */

import { isMailAddress } from '../shared/lib/bounded.ts'
import { isUsername, type Role } from './administrator.ts'

/** The first group that a person has decides. */
export interface GroupRole {
  group: string
  role: Role
  /** Tags of a registrar. */
  scope: readonly string[]
}

export interface ClaimRules {
  /** As configured. */
  issuer: string
  usernameClaim: string
  groupsClaim: string
  roles: readonly GroupRole[]
}

export interface OidcPerson {
  issuer: string
  subject: string
  username: string
  email: string
  role: Role
  scope: readonly string[]
}

export interface ClaimRefusal {
  /** A sentence for the person. */
  why: string
  /** The provider says well who it is, and that no group gives a role. */
  hasNoRole: boolean
}

type Claims = Readonly<Record<string, unknown>>

/** More than a person has; a provider that sends more is wrong or hostile. */
const MOST_GROUPS = 1_000
const MOST_OF_A_SUBJECT = 255

const refused = (why: string): ClaimRefusal => ({ why, hasNoRole: false })

export function personOf(claims: Claims, rules: ClaimRules): OidcPerson | ClaimRefusal {
  const { usernameClaim, groupsClaim, roles } = rules
  const { iss: issuer, sub: subject, email, email_verified: isVerified = true } = claims
  // OpenID Connect Core §3.1.3.7: the issuer of the token has to be the configured one.
  if (typeof issuer !== 'string' || !isSameIssuer(issuer, rules.issuer))
    return refused('you were signed in by another provider than the one that is configured here')
  if (!isSubject(subject)) return refused('the provider does not say who you are')
  const groups = groupsOf(claims[groupsClaim])
  if (groups === undefined) return refused(`the provider's claim '${groupsClaim}' is no list of groups`)
  const granted = roles.find(({ group }) => groups.includes(group))
  if (!granted) return { why: 'none of your groups may sign in here; ask an administrator', hasNoRole: true }
  const username = claims[usernameClaim]
  if (typeof username !== 'string' || !isUsername(username))
    return refused(`the provider's claim '${usernameClaim}' is no username that can be used here`)
  if (typeof email !== 'string' || !isMailAddress(email)) return refused('the provider gives no mail address of yours')
  // An address that nobody checked could be that of another person. Some providers say that in a text.
  if (isVerified !== true && isVerified !== 'true') return refused('the provider has not verified your mail address')
  return { issuer, subject, username, email, role: granted.role, scope: granted.scope }
}

/** PostgreSQL keeps no U+0000, and half a surrogate pair would become the mark that all of them become. */
export const isSubject = (sub: unknown): sub is string =>
  typeof sub === 'string' && sub !== '' && sub.length <= MOST_OF_A_SUBJECT && !/\0|\p{Cs}/u.test(sub)

/** A host without a path may be written with a slash. */
const hrefOf = (issuer: string) => (URL.canParse(issuer) ? new URL(issuer).href : issuer)
export const isSameIssuer = (found: string, configured: string): boolean => hrefOf(found) === hrefOf(configured)

/** Such an address of Microsoft stands for every tenant, and anybody can make one. */
export const isOfManyTenants = (issuer: string): boolean =>
  /[{}]|%7b/i.test(issuer) ||
  /^https:\/\/(?:login|sts)\.(?:[\w-]+\.)*(?:microsoft|microsoftonline|windows)\.\w+\/(?:common|organizations|consumers)(?:\/|$)/i.test(
    issuer,
  )

/** Claims that may come from the UserInfo endpoint instead of the ID token. */
const toldApart = ({ usernameClaim, groupsClaim }: ClaimRules) => [groupsClaim, usernameClaim, 'email']

export const hasAllClaims = (idToken: Claims, rules: ClaimRules): boolean =>
  toldApart(rules).every((name) => name in idToken)

/** Only what the ID token lacks comes from the UserInfo endpoint, whose answer nobody has signed. */
export function withUserInfo(idToken: Claims, userInfo: Claims, rules: ClaimRules): Claims {
  const lacking = toldApart(rules).filter((name) => !(name in idToken) && name in userInfo)
  // An address and whether it is verified come from one place.
  const { email_verified } = 'email' in idToken ? idToken : userInfo
  return { ...idToken, ...Object.fromEntries(lacking.map((name) => [name, userInfo[name]])), email_verified }
}

/** A text is one group, whatever commas or spaces it has. @returns undefined for anything else */
function groupsOf(claim: unknown): readonly string[] | undefined {
  if (claim === undefined || claim === null) return []
  if (typeof claim === 'string') return [claim]
  if (!Array.isArray(claim) || claim.length > MOST_GROUPS) return undefined
  return claim.every((group) => typeof group === 'string') ? claim : undefined
}

/** When the person proved to the provider to be that person; null when the provider does not say. */
export function authenticatedAt({ auth_time: seconds }: Claims, now: Date): Date | null {
  if (typeof seconds !== 'number' || !Number.isFinite(seconds) || seconds < 0) return null
  return new Date(Math.min(seconds * 1000, now.getTime()))
}

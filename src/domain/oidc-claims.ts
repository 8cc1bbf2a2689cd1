/** The claims of an OpenID Connect provider make a person a user with a role, or a refusal. Pure. */

import { isMailAddress } from '../shared/lib/bounded.ts'
import { isUsername, type Role, USERNAME_RULE } from './administrator.ts'

/** The first group that a person has decides. */
interface GroupRole {
  group: string
  role: Role
  /** Tags of a registrar. */
  scope: readonly string[]
}

export interface ClaimRules {
  /** The configuration has it so. */
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
/** Characters of a value that a sentence shows. */
const MOST_SHOWN = 200

const refused = (why: string): ClaimRefusal => ({ why, hasNoRole: false })

export function personOf(claims: Claims, rules: ClaimRules): OidcPerson | ClaimRefusal {
  const { usernameClaim, roles } = rules
  const { iss: issuer, sub: subject, email, email_verified: isVerified = true } = claims
  // OpenID Connect Core §3.1.3.7: the issuer of the token has to be the configured one.
  if (typeof issuer !== 'string' || !isSameIssuer(issuer, rules.issuer))
    return refused(`you were signed in by ${shown(issuer)}; admin_api.oidc.issuer is ${rules.issuer}`)
  if (!isSubject(subject))
    return refused(`the provider's claim 'sub' must be 1 to ${MOST_OF_A_SUBJECT} characters: ${shown(subject)}`)
  const groups = groupsOf(claims, rules.groupsClaim)
  if ('why' in groups) return groups
  const granted = roles.find(({ group }) => groups.includes(group))
  if (!granted) return { why: `none of your groups may sign in here: ${shown(groups)}; ${ASK}`, hasNoRole: true }
  const username = claimAt(claims, usernameClaim)
  if (isAbsent(username)) return notSent(usernameClaim, 'username_claim')
  if (typeof username !== 'string' || !isUsername(username))
    return refused(
      `the provider's claim '${usernameClaim}' is no username that can be used here: ${shown(username)}; it ${USERNAME_RULE}; admin_api.oidc.username_claim can name another claim`,
    )
  if (isAbsent(email)) return notSent('email', 'scopes')
  if (typeof email !== 'string' || !isMailAddress(email))
    return refused(`the provider's claim 'email' is no mail address: ${shown(email)}`)
  // An address that nobody checked could belong to another person. Some providers say that in a text.
  if (isVerified !== true && isVerified !== 'true')
    return refused(
      `the provider has not verified your mail address ${email}: its claim 'email_verified' is ${shown(isVerified)}`,
    )
  return { issuer, subject, username, email, role: granted.role, scope: granted.scope }
}

const ASK = 'ask an administrator'

/** Shows a value in a sentence, cut to a bound. */
export function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? 'absent'
  // PostgreSQL refuses half a surrogate pair, which a cut can leave.
  return text.length > MOST_SHOWN ? `${text.slice(0, MOST_SHOWN).replace(/\p{Cs}$/u, '')}…` : text
}

/** OpenID Connect Core §5.3.2: a claim without a value is left out; some providers send null or an empty text. */
const isAbsent = (claim: unknown) => claim === undefined || claim === null || claim === ''

const notSent = (claim: string, key: 'groups_claim' | 'username_claim' | 'scopes') =>
  refused(
    `the provider sent no claim '${claim}', neither in the ID token nor from its UserInfo endpoint: compare admin_api.oidc.${key} with what it sends; ${ASK}`,
  )

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

/** The member of that name, else that to which its dots lead: Keycloak has `realm_access.roles`, others a URL as a name. */
const claimAt = (claims: Claims, name: string): unknown =>
  Object.hasOwn(claims, name)
    ? claims[name]
    : name.split('.').reduce<unknown>((at, part) => Object.entries(at ?? {}).find(([key]) => key === part)?.[1], claims)

/** Claims that are absent here and may come from the UserInfo endpoint instead of the ID token. */
const absentIn = (claims: Claims, { usernameClaim, groupsClaim }: ClaimRules) =>
  [groupsClaim, usernameClaim, 'email'].filter((name) => isAbsent(claimAt(claims, name)))

export const hasAllClaims = (idToken: Claims, rules: ClaimRules): boolean => absentIn(idToken, rules).length === 0

/** Only what the ID token does not have comes from the UserInfo endpoint, whose answer nobody has signed. */
export function withUserInfo(idToken: Claims, userInfo: Claims, rules: ClaimRules): Claims {
  const added = absentIn(idToken, rules).filter((name) => !isAbsent(claimAt(userInfo, name)))
  // An address and whether it is verified come from one place.
  const { email_verified } = added.includes('email') ? userInfo : idToken
  return { ...idToken, ...Object.fromEntries(added.map((name) => [name, claimAt(userInfo, name)])), email_verified }
}

/** A text is one group, whatever commas or spaces it has. A claim that is absent is not an empty list. */
function groupsOf(claims: Claims, name: string): readonly string[] | ClaimRefusal {
  const claim = claimAt(claims, name)
  if (isAbsent(claim)) return isElsewhere(claims, name) ? tooMany(name) : notSent(name, 'groups_claim')
  if (typeof claim === 'string') return [claim]
  if (!Array.isArray(claim) || !claim.every((group) => typeof group === 'string'))
    return refused(`the provider's claim '${name}' is no list of groups: ${shown(claim)}`)
  if (claim.length <= MOST_GROUPS) return claim
  return refused(
    `the provider's claim '${name}' has ${claim.length} groups, and ${MOST_GROUPS} are the most: let the provider send only those that are in admin_api.oidc.roles; ${ASK}`,
  )
}

/** OpenID Connect Core §5.6.2: so does Entra ID from the 201st group on. In the implicit flow it sends `hasgroups`. */
function isElsewhere({ _claim_names: names, hasgroups }: Claims, claim: string): boolean {
  const isNamed = typeof names === 'object' && names !== null && Object.hasOwn(names, claim)
  return isNamed || (claim === 'groups' && hasgroups === true)
}

const tooMany = (claim: string) =>
  refused(
    `you have more groups than the provider puts into a token, and it left out '${claim}': let it send only the groups that are assigned to this service, or roles (admin_api.oidc.groups_claim: roles); ${ASK}`,
  )

/** When the person proved to the provider to be that person; null when the provider does not say. */
export function authenticatedAt({ auth_time: seconds }: Claims, now: Date): Date | null {
  if (typeof seconds !== 'number' || !Number.isFinite(seconds) || seconds < 0) return null
  return new Date(Math.min(seconds * 1000, now.getTime()))
}

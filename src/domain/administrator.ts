/** Administrators: roles, and the person or program behind an administrative action. */

export const ROLES = ['admin', 'operator', 'registrar', 'auditor'] as const
export type Role = (typeof ROLES)[number]

/** How the user of a session was recognized. */
export const SESSION_METHODS = ['password', 'passkey', 'oidc'] as const
export type SessionMethod = (typeof SESSION_METHODS)[number]

/** The author of an action, as the audit log names it. */
export interface Actor {
  /** Undefined for the command line. */
  userId: string | undefined
  username: string
  role: Role
  /** Tags of accounts and credentials that a registrar looks after; without meaning for other roles. */
  scope?: readonly string[]
  /** Undefined for the command line. */
  ipAddress: string | undefined
  /** The session of a login. */
  sessionId?: string
  /** The API token that was used instead of a login. */
  apiTokenId?: string
  /** The OS user of the command line. */
  operator?: string
}

/** ASCII alone: other letters look alike, and JavaScript and PostgreSQL fold their case differently. */
export const USERNAME_RULE = 'must be 1 to 128 letters, digits and . _ - @ + of ASCII, the first a letter, a digit or _'
export const isUsername = (text: string) => /^\w[\w.@+-]{0,127}$/.test(text)

/** Colours that tell the consoles of several installations apart; white text on each has a contrast of 4.5 to 1. */
export const ENVIRONMENT_COLORS = ['gray', 'red', 'orange', 'green', 'blue', 'purple'] as const

export interface Environment {
  name: string
  color: (typeof ENVIRONMENT_COLORS)[number]
}

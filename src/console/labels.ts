/** Names that several pages show: roles, statuses, reasons. */

export const ROLES = { admin: 'Administrator', operator: 'Operator', registrar: 'Registrar', auditor: 'Auditor' }
export const ROLE_OPTIONS = Object.entries(ROLES).reverse()

/** What a role may do. */
export const ROLE_HELP: Readonly<Record<string, string>> = {
  admin: 'May do everything.',
  operator:
    'Reads all but credentials, revokes certificates, blocks keys, and runs CRLs, notifications, maintenance and signing.',
  registrar:
    'Sees and revokes certificates of accounts with the tags below, and makes credentials for them. Nothing else exists for it.',
  auditor: 'Reads all but credentials.',
}

/** With the tags of a registrar; the release before kept sessions without them. */
export const roleText = ({ role, scope = [] }: { role: keyof typeof ROLES; scope?: readonly string[] }): string =>
  [ROLES[role], ...(scope.length > 0 ? [`of ${scope.join(', ')}`] : [])].join(' ')

/** The reasons of RFC 5280 §5.3.1 that an administrator may give, by their codes. */
export const REVOCATION_REASONS: Readonly<Record<string, string>> = {
  0: 'unspecified',
  1: 'keyCompromise: somebody else has the key',
  3: 'affiliationChanged: the names belong to somebody else',
  4: 'superseded: a newer certificate takes its place',
  5: 'cessationOfOperation: the names are no longer served',
  9: 'privilegeWithdrawn: the account may no longer have it',
}
/** The only reason that blocks the key. */
export const KEY_COMPROMISE = '1'

export const RENEWAL_ADVICE =
  'Renewal information (RFC 9773) then says that the window is open. Clients that ask for it, every six hours or so, ' +
  'renew the certificate; others do not notice. Nothing is revoked.'

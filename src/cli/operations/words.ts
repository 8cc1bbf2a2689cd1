/** The commands that operations of the Admin API have on the command line, here and from another machine. */

/** A path parameter that a name stands for: where the names are listed, and as what. */
interface Named {
  shown: string
  list?: string
  member?: string
}

export const NAMED: Readonly<Record<string, Named>> = {
  user_id: { shown: 'username', list: 'listUsers', member: 'username' },
  token_id: { shown: 'token', list: 'listTokens', member: 'name' },
  cred_id: { shown: 'eab', list: 'listEabCredentials', member: 'kid' },
  identifier_id: { shown: 'identifier', list: 'listAllowedIdentifiers', member: 'identifier_value' },
  profile_id: { shown: 'profile', list: 'listCsrProfiles', member: 'name' },
}

export const shownName = (parameter: string): string =>
  NAMED[parameter]?.shown ?? parameter.replace(/_id$/, '').replaceAll('_', '-')

/** As the help shows it. */
export const usageOf = ({ usage }: Words): string =>
  usage.replaceAll(/<(\w+)>/g, (_, name: string) => `<${shownName(name)}>`)

/** About the user of a session, which a command on the database does not have. */
export const NEEDS_USER: readonly string[] = ['login', 'logout', 'getMe', 'resetMyPassword', 'createToken']

export interface Words {
  /** Its words, then path parameters and body members by their names in the description. */
  usage: string
  /** That whose path parameters are given; the others become options. */
  operations: readonly [string, ...string[]]
  about: string
  /** Members of the body that the words stand for. */
  fixed?: Readonly<Record<string, unknown>>
  /** The member of the body whose members become options of their own. */
  within?: string
  /** Shows a job that the operation has begun. */
  job?: string
  /** Of the table that a list is shown as. */
  columns?: readonly string[]
}

const words = (
  usage: string,
  operations: string | readonly [string, ...string[]],
  about: string,
  more: Omit<Words, 'usage' | 'operations' | 'about'> = {},
): Words => ({ usage, about, operations: typeof operations === 'string' ? [operations] : operations, ...more })

const list = (
  usage: string,
  operations: string | readonly [string, ...string[]],
  about: string,
  ...columns: string[]
): Words => words(usage, operations, about, { columns })

const BULK = { within: 'filter', job: 'getBulkRevocation' }
const JOBS = ['id', 'status', 'created_by', 'created_at', 'total_matched', 'revoked', 'errors_total']

export const WORDS: readonly Words[] = [
  list(
    'users list',
    'listUsers',
    'List the users of the Admin API, newest first',
    'id',
    'username',
    'email',
    'role',
    'enabled',
  ),
  words('users create <username>', 'createUser', 'Make a user of the Admin API and print the generated password, once'),
  words('users show <user_id>', 'getUser', 'Show a user'),
  words('users update <user_id>', 'updateUser', 'Change role or access of a user, at once'),
  words('users delete <user_id>', 'deleteUser', 'Delete a user with all sessions and API tokens'),
  words('me show', 'getMe', 'Show who is logged in'),
  words(
    'me reset-password',
    'resetMyPassword',
    'Generate a new password for oneself, print it once, and end all sessions',
  ),
  list(
    'tokens list',
    'listTokens',
    'List the API tokens, newest first',
    'id',
    'name',
    'role',
    'expires_at',
    'last_used_at',
    'revoked_at',
  ),
  words('tokens create <name>', 'createToken', 'Make an API token for a machine and print it, once'),
  words('tokens revoke <token_id>', 'revokeToken', 'Revoke an API token'),
  list(
    'audit list',
    'listAuditLog',
    'List what administrators did, newest first',
    'id',
    'action',
    'user_id',
    'created_at',
    'details',
  ),
  words('audit export', 'exportAuditLog', 'Print all entries of the audit log that fit, one JSON object a line'),
  list(
    'eab list',
    'listEabCredentials',
    'List the credentials of external account binding, newest first',
    'id',
    'kid',
    'label',
    'revoked',
    'used',
    'created_at',
  ),
  words(
    'eab create <kid>',
    'createEabCredential',
    'Make a credential of external account binding and print its HMAC key, once',
  ),
  words('eab show <cred_id>', 'getEabCredential', 'Show a credential of external account binding'),
  words(
    'eab revoke <cred_id>',
    'revokeEabCredential',
    'Revoke a credential, the accounts registered with it and their authorizations',
  ),
  list(
    'identifiers list',
    ['listAllowedIdentifiers', 'listIdentifiersOfAccount', 'listIdentifiersOfEab'],
    'List the identifiers that may be allowed, or those of an account or credential',
    ...['id', 'identifier_type', 'identifier_value', 'created_at'],
  ),
  words(
    'identifiers create <value>',
    'createAllowedIdentifier',
    'Make an identifier: a name, *.name, an address, a network',
  ),
  words('identifiers show <identifier_id>', 'getAllowedIdentifier', 'Show an identifier and who may request it'),
  words(
    'identifiers delete <identifier_id>',
    'deleteAllowedIdentifier',
    'Delete an identifier; no account and no credential has it any more',
  ),
  words(
    'identifiers allow <identifier_id>',
    ['addAccountToIdentifier', 'addIdentifierToEab'],
    'Allow an identifier to an account itself, or to a credential and its accounts',
  ),
  words(
    'identifiers disallow <identifier_id>',
    ['removeAccountFromIdentifier', 'removeIdentifierFromEab'],
    'Take it back; what the other of account and credential has stays',
  ),
  list(
    'profiles list',
    'listCsrProfiles',
    'List the CSR profiles, newest first',
    'id',
    'name',
    'description',
    'created_at',
  ),
  words('profiles create <name>', 'createCsrProfile', 'Store a CSR profile'),
  words('profiles show <profile_id>', 'getCsrProfile', 'Show a CSR profile and whose it is'),
  words('profiles replace <profile_id>', 'replaceCsrProfile', 'Replace a CSR profile, for all who have it'),
  words(
    'profiles delete <profile_id>',
    'deleteCsrProfile',
    'Delete a CSR profile; its accounts go back to that of their credential, or to none',
  ),
  words(
    'profiles assign <profile_id>',
    ['assignCsrProfile', 'assignCsrProfileToEab'],
    'Give a CSR profile to an account, or to a credential and its accounts',
  ),
  words(
    'profiles unassign <profile_id>',
    ['unassignCsrProfile', 'unassignCsrProfileFromEab'],
    'Take a CSR profile back from an account, or from a credential and its accounts',
  ),
  words(
    'profiles assigned',
    ['getCsrProfileOfAccount', 'getCsrProfileOfEab'],
    'Show the CSR profile of an account or credential',
  ),
  words('profiles validate <profile_id>', 'validateCsr', 'Say what a request would violate'),
  list(
    'accounts list',
    'listAccounts',
    'List ACME accounts by filters, newest first',
    'id',
    'status',
    'eab_kid',
    'created_at',
    'jwk_thumbprint',
  ),
  words('accounts show <account_id>', 'getAccount', 'Show an account with its contacts'),
  words(
    'accounts deactivate <account_id>',
    'deactivateAccount',
    'Deactivate an account and its authorizations, for good',
  ),
  list(
    'certificates list',
    'listCertificates',
    'List certificates by filters, newest first',
    'serial_number',
    'san_values',
    'not_after',
    'revoked_at',
  ),
  words('certificates show <serial>', 'getCertificate', 'Show a certificate'),
  words(
    'certificates by-fingerprint <fingerprint>',
    'getCertificateByFingerprint',
    'Show the certificate with a SHA-256 fingerprint',
  ),
  words('certificates pem <serial>', 'getCertificatePem', 'Print a certificate as PEM'),
  words('certificates chain <serial>', 'getCertificateChain', 'Print a certificate and its issuers as PEM'),
  words(
    'certificates revoke <serial>',
    'revokeCertificate',
    'Revoke a certificate; the reason 1, keyCompromise, also blocks its key',
  ),
  words(
    'certificates bulk-revoke',
    'bulkRevoke',
    'Revoke all unexpired certificates that filters match, and say how far it is',
    BULK,
  ),
  list(
    'certificates unconfirmed',
    'listBackendRevocations',
    'List revocations that another CA has not confirmed, the oldest first',
    ...['certificate_id', 'backend', 'serial_number', 'attempts', 'error'],
  ),
  words(
    'certificates give-up <certificate_id>',
    'giveUpBackendRevocation',
    'Ask the CA no more to revoke this certificate',
  ),
  list('bulk-revocations list', 'listBulkRevocations', 'List bulk revocations, newest first', ...JOBS),
  words('bulk-revocations show <job_id>', 'getBulkRevocation', 'Show how far a bulk revocation is'),
  list(
    'bulk-revocations results <job_id>',
    'listBulkRevocationCertificates',
    'List what became of each of its certificates',
    ...['serial_number', 'outcome', 'certificate_id'],
  ),
  list(
    'orders list',
    'listOrders',
    'List orders by filters, newest first',
    'id',
    'status',
    'created_at',
    'identifiers',
    'certificate_id',
  ),
  words('orders show <order_id>', 'getOrder', 'Show an order with its authorizations and their evidence'),
  words('renewals advise', 'adviseRenewal', 'Tell clients to renew certificates now (RFC 9773)', { within: 'filter' }),
  words('renewals clear', 'clearRenewals', 'Take such advice back', { within: 'filter' }),
  list(
    'keys list',
    'listBlockedKeys',
    'List the blocked keys, newest first',
    'spki_sha256',
    'blocked_at',
    'certificate_id',
  ),
  words(
    'keys block <spki_sha256>',
    'blockKey',
    'Block a key by the SHA-256 of its SubjectPublicKeyInfo: no certificate is issued for it any more',
  ),
  words('keys unblock <spki_sha256>', 'unblockKey', 'Take the block of a key back'),
  list(
    'notifications list',
    'listNotifications',
    'List notifications, newest first',
    ...['id', 'status', 'created_at', 'notification_type', 'recipient', 'error_detail'],
  ),
  words('notifications retry', 'retryNotifications', 'Queue all failed notifications again'),
  words('notifications purge', 'purgeNotifications', 'Delete notifications that were sent or have failed'),
  list(
    'events dead',
    'listDeadLetters',
    'List deliveries of events that failed for good, newest first',
    ...['id', 'failed_at', 'consumer', 'kind', 'attempts', 'error'],
  ),
  words('events retry <dead_letter_id>', 'retryDeadLetter', 'Deliver such an event again'),
  words(
    'workers status',
    'getWorkers',
    'Say which instance runs each background task, when, and what waits for consumers of events',
  ),
  words('crl rebuild', 'rebuildCrl', 'Have a new CRL built and wait until it is published (needs crl.enabled)'),
  words(
    'maintenance on',
    'setMaintenance',
    'Refuse new orders and pre-authorizations on all instances; what was begun goes on',
    {
      fixed: { enabled: true },
    },
  ),
  words('maintenance off', 'setMaintenance', 'Take new orders again', { fixed: { enabled: false } }),
  words('maintenance status', 'getMaintenance', 'Say whether the service is in maintenance'),
  words('signing stop', 'setSigning', 'Stop all signing on all instances within two seconds: certificates and CRLs', {
    fixed: { stopped: true },
  }),
  words('signing resume', 'setSigning', 'Sign again; what was begun is finished', { fixed: { stopped: false } }),
  words('signing status', 'getSigning', 'Say whether signing is stopped'),
]

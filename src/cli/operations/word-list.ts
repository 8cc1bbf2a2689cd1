/** The commands that operations of the Admin API have on the command line, here and from another machine. */

import { maintenanceText, passwordText, revokedText, signingText, userText, workersText } from './texts.ts'
import type { Words } from './words.ts'

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

const BULK = {
  ...{ within: 'filter', job: 'getBulkRevocation' },
  sentences: { reason: 'CRLReason: 0, 1, 2, 3, 4, 5 or 9; 1, keyCompromise, also blocks the keys' },
}
const PASSWORD = { text: passwordText, remark: 'The password is not shown again.' }
const EMAIL = 'E-mail address of the user; with -c FILE, admin_api.initial_admin_email when absent'
const WHY = { reason: 'Why; the status shows it' }
const MAINTENANCE = { text: maintenanceText, anySchema: true, sentences: WHY } as const
const SIGNING = { text: signingText, anySchema: true, sentences: WHY } as const
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
  words('admin create-user', 'createUser', 'Make an administrator and print the generated password, once', {
    ...PASSWORD,
    further: '--username',
    fallback: (config) => ({ username: 'admin', role: 'admin', email: config?.admin_api.initial_admin_email }),
    sentences: { username: 'Name of the user (default admin)', email: EMAIL, role: 'admin or auditor (default admin)' },
  }),
  words(
    'users create <username>',
    'createUser',
    'Make a user of the Admin API and print the generated password, once',
    {
      ...PASSWORD,
      fallback: (config) => ({ email: config?.admin_api.initial_admin_email }),
      sentences: { email: EMAIL },
    },
  ),
  words('users show <user_id>', 'getUser', 'Show a user'),
  words('users update <user_id>', 'updateUser', 'Change role or access of a user, at once', { text: userText }),
  words('users delete <user_id>', 'deleteUser', 'Delete a user with all sessions and API tokens'),
  words(
    'users reset-password <user_id>',
    'resetPassword',
    'Generate a new password, print it once, and end all sessions and API tokens of the user',
    PASSWORD,
  ),
  words('me show', 'getMe', 'Show who is logged in'),
  words(
    'me reset-password',
    'resetMyPassword',
    'Ask for the current password, generate a new one, print it once, and end all sessions',
    { ...PASSWORD, secret: 'current_password' },
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
  words('tokens create <name>', 'createToken', 'Make an API token for a machine and print it, once', {
    remark: 'The token is not shown again.',
  }),
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
  words('eab show <cred_id>', 'getEabCredential', 'Show a credential of external account binding'),
  words(
    'eab revoke <cred_id>',
    'revokeEabCredential',
    'Revoke a credential, the accounts registered with it and their authorizations',
    { text: revokedText },
  ),
  list(
    'identifiers list',
    ['listAllowedIdentifiers', 'listIdentifiersOfAccount', 'listIdentifiersOfEab'],
    'List the identifiers that may be allowed, or those of an account or credential',
    ...['identifier_type', 'identifier_value', 'created_at', 'id'],
  ),
  words('identifiers show <identifier_id>', 'getAllowedIdentifier', 'Show an identifier and who may request it'),
  list(
    'accounts allowed <account_id>',
    'listIdentifiersOfAccount',
    'List the identifiers allowed to an account',
    ...['identifier_type', 'identifier_value', 'created_at', 'id'],
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
  words('profiles show <profile_id>', 'getCsrProfile', 'Show a CSR profile and whose it is'),
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
  words('terms show', 'getTerms', 'Show which terms of service count, and how many accounts have agreed'),
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
  words(
    'bulk-revocations cancel <job_id>',
    'cancelBulkRevocation',
    'Stop a bulk revocation after the page in hand; revoked certificates stay revoked',
  ),
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
    'issuers list',
    'listIssuers',
    'List the CAs whose certificates the database has, newest first',
    ...['fingerprint', 'id', 'subject', 'not_after'],
  ),
  words('issuers chain <fingerprint>', 'getIssuerChain', 'Print the certificate of a CA and those above it as PEM'),
  list(
    'notifications list',
    'listNotifications',
    'List notifications, newest first',
    ...['id', 'status', 'created_at', 'notification_type', 'recipient', 'error_detail'],
  ),
  words('notifications retry', 'retryNotifications', 'Queue all failed notifications again'),
  words('notifications purge', 'purgeNotifications', 'Delete notifications that were sent or have failed', {
    sentences: { days: 'Only those older than so many days' },
  }),
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
    { text: workersText },
  ),
  words(
    'maintenance on',
    'setMaintenance',
    'Refuse new orders and pre-authorizations on all instances; what was begun goes on',
    { ...MAINTENANCE, fixed: { enabled: true } },
  ),
  words('maintenance off', 'setMaintenance', 'Take new orders again', { ...MAINTENANCE, fixed: { enabled: false } }),
  words('maintenance status', 'getMaintenance', 'Say whether the service is in maintenance', MAINTENANCE),
  words('signing stop', 'setSigning', 'Stop all signing on all instances within two seconds: certificates and CRLs', {
    ...SIGNING,
    fixed: { stopped: true },
  }),
  words('signing resume', 'setSigning', 'Sign again; what was begun is finished', {
    ...SIGNING,
    fixed: { stopped: false },
  }),
  words('signing status', 'getSigning', 'Say whether signing is stopped', SIGNING),
]

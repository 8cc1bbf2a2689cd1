/** The commands that operations of the Admin API have on the command line, as at the service itself. */

export interface Words {
  /** Its words, then path parameters and body members by their names in the description. */
  usage: string
  /** That whose path parameters are given; the others become options. */
  operations: readonly [string, ...string[]]
  /** In place of the summaries of the operations. */
  about?: string
  /** Members of the body that the words stand for. */
  fixed?: Readonly<Record<string, unknown>>
  /** Of the table that a list is shown as. */
  columns?: readonly string[]
}

const words = (usage: string, operation: string, more: Omit<Words, 'usage' | 'operations'> = {}): Words => ({
  ...{ usage, operations: [operation], ...more },
})
const list = (usage: string, operation: string, ...columns: string[]) => words(usage, operation, { columns })

export const WORDS: readonly Words[] = [
  list('users list', 'listUsers', 'id', 'username', 'email', 'role', 'enabled'),
  words('users create <username>', 'createUser'),
  words('users show <user_id>', 'getUser'),
  words('users update <user_id>', 'updateUser'),
  words('users delete <user_id>', 'deleteUser'),
  words('me show', 'getMe'),
  words('me reset-password', 'resetMyPassword'),
  list('tokens list', 'listTokens', 'id', 'name', 'role', 'expires_at', 'last_used_at', 'revoked_at'),
  words('tokens create <name>', 'createToken'),
  words('tokens revoke <token_id>', 'revokeToken'),
  list('audit list', 'listAuditLog', 'id', 'action', 'user_id', 'created_at', 'details'),
  words('audit export', 'exportAuditLog'),
  list('eab list', 'listEabCredentials', 'id', 'kid', 'label', 'revoked', 'used', 'created_at'),
  words('eab create <kid>', 'createEabCredential'),
  words('eab show <cred_id>', 'getEabCredential'),
  words('eab revoke <cred_id>', 'revokeEabCredential'),
  {
    usage: 'identifiers list',
    operations: ['listAllowedIdentifiers', 'listIdentifiersOfAccount', 'listIdentifiersOfEab'],
    columns: ['id', 'identifier_type', 'identifier_value', 'created_at'],
  },
  words('identifiers create <value>', 'createAllowedIdentifier'),
  words('identifiers show <identifier_id>', 'getAllowedIdentifier'),
  words('identifiers delete <identifier_id>', 'deleteAllowedIdentifier'),
  { usage: 'identifiers allow <identifier_id>', operations: ['addAccountToIdentifier', 'addIdentifierToEab'] },
  {
    usage: 'identifiers disallow <identifier_id>',
    operations: ['removeAccountFromIdentifier', 'removeIdentifierFromEab'],
  },
  {
    usage: 'profiles list',
    operations: ['listCsrProfiles'],
    columns: ['id', 'name', 'description', 'created_at'],
  },
  words('profiles create <name>', 'createCsrProfile'),
  words('profiles show <profile_id>', 'getCsrProfile'),
  words('profiles replace <profile_id>', 'replaceCsrProfile'),
  words('profiles delete <profile_id>', 'deleteCsrProfile'),
  { usage: 'profiles assign <profile_id>', operations: ['assignCsrProfile', 'assignCsrProfileToEab'] },
  { usage: 'profiles unassign <profile_id>', operations: ['unassignCsrProfile', 'unassignCsrProfileFromEab'] },
  { usage: 'profiles assigned', operations: ['getCsrProfileOfAccount', 'getCsrProfileOfEab'] },
  words('profiles validate <profile_id>', 'validateCsr'),
  list('accounts list', 'listAccounts', 'id', 'status', 'eab_kid', 'created_at', 'jwk_thumbprint'),
  words('accounts show <account_id>', 'getAccount'),
  words('accounts deactivate <account_id>', 'deactivateAccount'),
  list('certificates list', 'listCertificates', 'serial_number', 'san_values', 'not_after', 'revoked_at'),
  words('certificates show <serial>', 'getCertificate'),
  words('certificates by-fingerprint <fingerprint>', 'getCertificateByFingerprint'),
  words('certificates pem <serial>', 'getCertificatePem'),
  words('certificates chain <serial>', 'getCertificateChain'),
  words('certificates revoke <serial>', 'revokeCertificate'),
  words('certificates bulk-revoke', 'bulkRevoke'),
  list(
    ...(['certificates unconfirmed', 'listBackendRevocations', 'certificate_id', 'backend', 'serial_number'] as const),
    ...['attempts', 'error'],
  ),
  words('certificates give-up <certificate_id>', 'giveUpBackendRevocation'),
  words('orders list', 'listOrders'),
  words('orders show <order_id>', 'getOrder'),
  words('notifications list', 'listNotifications'),
  words('notifications retry', 'retryNotifications'),
  words('notifications purge', 'purgeNotifications'),
  words('crl rebuild', 'rebuildCrl'),
  words('maintenance on', 'setMaintenance', {
    about: 'Refuses new orders and pre-authorizations on all instances.',
    fixed: { enabled: true },
  }),
  words('maintenance off', 'setMaintenance', { about: 'Takes new orders again.', fixed: { enabled: false } }),
  words('maintenance status', 'getMaintenance'),
  words('signing stop', 'setSigning', { about: 'Stops all signing on all instances.', fixed: { stopped: true } }),
  words('signing resume', 'setSigning', { about: 'Signs again.', fixed: { stopped: false } }),
  words('signing status', 'getSigning'),
]

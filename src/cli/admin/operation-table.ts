/** The commands for single operations of the Admin API, one row each. */

import type { Input } from '../../admin/client.ts'
import {
  ACCOUNT_FILTERS,
  ACCOUNT_MEMBERS,
  CREDENTIAL_FILTERS,
  CREDENTIAL_MEMBERS,
  FAILURE_FILTERS,
  ORDER_FILTERS,
  ORDER_MEMBERS,
} from '../../admin/resources/accounts.ts'
import {
  AT_RISK_FILTERS,
  CERTIFICATE_FILTERS,
  CERTIFICATE_MEMBERS,
  CERTIFICATE_SORTS,
} from '../../admin/resources/certificates.ts'
import { pick } from '../../admin/resources/filter.ts'
import { APPROVAL_FILTERS, AUDIT_FILTERS, NOTIFICATION_FILTERS } from '../../admin/resources/operation.ts'
import { ROLES } from '../../domain/administrator.ts'
import { readReport } from '../../domain/incident.ts'
import { optional } from '../../shared/command-line.ts'
import { flag, json, oneOf, text, whole } from '../values.ts'
import { choiceOf, optionsOf } from './filter-options.ts'
import { type OperationRow, row } from './operation-command.ts'
import {
  maintenanceText,
  nameText,
  passwordText,
  revokedText,
  signingText,
  userText,
  workersText,
} from './reply-texts.ts'

/** The service checks the number, and the query has it as text. */
const number = (value: string) => String(whole(0, Number.MAX_SAFE_INTEGER, 'takes a whole number')(value))
const tagsOf = (value: string) => value.split(',').flatMap((tag) => tag.trim() || [])

const LIMIT = { limit: optional('Rows of a page', number) }
const OFFSET = { ...LIMIT, offset: optional('Rows to skip', number) }
const CURSOR = {
  cursor: optional('Where the page before ended, as its last line says; empty for the first page', String),
}
const PLACE = { ...LIMIT, offset: optional('Rows to skip; --cursor goes further', number), ...CURSOR }

const ISSUER = { issuer: optional("SHA-256 of the issuer's certificate, where several issuers use the number", text) }
const ROLE_NAMES = `${ROLES.slice(0, -1).join(', ')} or ${ROLES.at(-1)}`
const ROLE = {
  role: optional(ROLE_NAMES, oneOf(ROLES)),
  scope: optional('Tags of accounts and credentials that a registrar looks after, with commas between them', tagsOf),
}
const EMAIL = {
  email: optional('E-mail address of the user; with -c FILE, admin_api.initial_admin_email when absent', text),
}
const REASON = { reason: optional('Why; the status shows it', text) }
const PASSWORD = { text: passwordText, remark: 'The password is not shown again.' }
const MAINTENANCE = { text: maintenanceText, anySchema: true } as const
const SIGNING = { text: signingText, anySchema: true } as const

type IncidentFilter = NonNullable<Input<'beginIncident'>['body']>['filter']
/** The service checks it. */
const incidentFilter = (value: string) => json(value) as IncidentFilter

/** A private key is refused here, before it is sent. */
const publicText = (value: string): string => {
  readReport(value)
  return value
}

export const OPERATION_ROWS: readonly OperationRow[] = [
  row({
    ...MAINTENANCE,
    usage: 'maintenance on',
    operation: 'setMaintenance',
    about: 'Refuse new orders and pre-authorizations on all instances; orders that exist can be finished',
    fixed: { enabled: true },
    body: REASON,
  }),
  row({
    ...MAINTENANCE,
    usage: 'maintenance off',
    operation: 'setMaintenance',
    about: 'Take new orders again',
    fixed: { enabled: false },
    body: REASON,
  }),
  row({
    ...MAINTENANCE,
    usage: 'maintenance status',
    operation: 'getMaintenance',
    about: 'Say whether the service is in maintenance',
  }),
  row({
    ...SIGNING,
    usage: 'signing stop',
    operation: 'setSigning',
    about: 'Stop all signing on all instances within two seconds: certificates and CRLs',
    fixed: { stopped: true },
    body: REASON,
  }),
  row({
    ...SIGNING,
    usage: 'signing resume',
    operation: 'setSigning',
    approval: true,
    about: 'Resume signing; orders that were interrupted are finished',
    fixed: { stopped: false },
    body: REASON,
  }),
  row({ ...SIGNING, usage: 'signing status', operation: 'getSigning', about: 'Say whether signing is stopped' }),
  row({
    usage: 'workers status',
    operation: 'getWorkers',
    about: 'Say which instance runs each background task, when, and what waits for consumers of events',
    text: workersText,
  }),

  row({
    usage: 'crl status',
    operation: 'listCrls',
    about: 'Say which lists are published and until when, and why there is no new one',
  }),
  row({
    usage: 'overview',
    operation: 'getOverview',
    about: 'Show alarms, numbers of the last day and the state of all parts; of the instances only with --server',
  }),
  row({
    usage: 'settings',
    operation: 'getSettings',
    about: 'Show the configuration in force on an instance, with --server only',
  }),
  row({
    usage: 'failures list',
    operation: 'listFailures',
    about: 'List what clients failed at within 30 days, newest first; the last 50 of each account',
    query: { ...optionsOf(FAILURE_FILTERS), ...OFFSET },
    columns: ['occurred_at', 'account_name', 'kind', 'data'],
  }),
  row({
    usage: 'certificates list',
    operation: 'listCertificates',
    about: 'List certificates by filters, newest first',
    query: {
      ...optionsOf(CERTIFICATE_FILTERS),
      sort: choiceOf(CERTIFICATE_SORTS, 'By issuance or expiry; with a minus, the last comes first'),
      ...PLACE,
    },
    columns: CERTIFICATE_MEMBERS.table,
  }),
  row({
    usage: 'certificates at-risk',
    operation: 'listAtRisk',
    about: 'List certificates whose renewal window is open and that nobody has renewed, the first to expire at the top',
    query: { ...optionsOf(AT_RISK_FILTERS), ...PLACE },
    columns: ['serial_number', 'san_values', 'not_after', 'account_name', 'attempt'],
  }),
  row({
    usage: 'certificates show <serial>',
    operation: 'getCertificate',
    about: 'Show a certificate',
    query: ISSUER,
  }),
  row({
    usage: 'certificates by-fingerprint <fingerprint>',
    operation: 'getCertificateByFingerprint',
    about: 'Show the certificate with a SHA-256 fingerprint',
  }),
  row({
    usage: 'certificates pem <serial>',
    operation: 'getCertificatePem',
    about: 'Print a certificate as PEM',
    query: ISSUER,
  }),
  row({
    usage: 'certificates chain <serial>',
    operation: 'getCertificateChain',
    about: 'Print a certificate and its issuers as PEM',
    query: ISSUER,
  }),
  row({
    usage: 'certificates unconfirmed',
    operation: 'listBackendRevocations',
    about: 'List revocations that another CA has not confirmed, oldest first',
    query: OFFSET,
    columns: ['certificate_id', 'backend', 'serial_number', 'attempts', 'error'],
  }),
  row({
    usage: 'certificates give-up <certificate_id>',
    operation: 'giveUpBackendRevocation',
    about: 'Stop asking the other CA to revoke this certificate',
  }),
  row({
    usage: 'bulk-revocations list',
    operation: 'listBulkRevocations',
    about: 'List bulk revocations, newest first',
    query: OFFSET,
    columns: ['id', 'status', 'created_by', 'created_at', 'total_matched', 'revoked', 'errors_total'],
  }),
  row({
    usage: 'bulk-revocations show <job_id>',
    operation: 'getBulkRevocation',
    about: 'Show the progress of a bulk revocation',
  }),
  row({
    usage: 'bulk-revocations cancel <job_id>',
    operation: 'cancelBulkRevocation',
    about: 'Stop a bulk revocation after its current page; revoked certificates stay revoked',
  }),
  row({
    usage: 'bulk-revocations results <job_id>',
    operation: 'listBulkRevocationCertificates',
    about: 'List the outcome for each of its certificates',
    query: { ...LIMIT, ...CURSOR },
    columns: ['serial_number', 'outcome', 'certificate_id'],
  }),
  row({
    usage: 'incidents examine',
    operation: 'examineIncident',
    about: 'Show what a key, type of key, certificate, CSR, account, kid or name concerns, by owner',
    body: {
      text: optional(
        'PEM, JWK, SHA-256 of a public key, account, kid, type of key such as RSA-below-3072, or name; never a private key',
        publicText,
      ),
      below: optional('true: a name, and all below it', flag),
    },
  }),
  row({
    usage: 'incidents list',
    operation: 'listIncidents',
    about: 'List incidents, newest first',
    query: OFFSET,
    columns: ['id', 'created_at', 'created_by', 'certificates', 'filter', 'job_id'],
  }),
  row({
    usage: 'incidents begin',
    operation: 'beginIncident',
    approval: true,
    about: 'Revoke what an incident concerns, block the key, advise renewal, tell the owners',
    body: {
      filter: optional('The filter that examine shows, as JSON', incidentFilter),
      revoke: optional('true: revoke the certificates', flag),
      reason: optional('CRLReason; 1, keyCompromise, when absent', whole(0, 10)),
      block_key: optional('true: block the key', flag),
      advise_renewal: optional('true: advise clients to renew now', flag),
      tell_owners: optional('true: mail the owners', flag),
      remark: optional('A sentence for the owners', text),
      confirm_count: optional('The number of certificates that examine shows', whole(0, 2 ** 31 - 1)),
    },
  }),
  row({
    usage: 'incidents show <incident_id>',
    operation: 'getIncident',
    about: 'Show how far an incident is',
  }),
  row({
    usage: 'incidents report <incident_id>',
    operation: 'getIncidentReport',
    about: 'Print the report of an incident, one JSON object a line',
    isStream: true,
  }),
  row({
    usage: 'keys list',
    operation: 'listBlockedKeys',
    about: 'List the blocked keys, newest first',
    query: PLACE,
    columns: ['spki_sha256', 'blocked_at', 'certificate_id'],
  }),
  row({
    usage: 'keys block <spki_sha256>',
    operation: 'blockKey',
    about: 'Block a key by the SHA-256 of its SubjectPublicKeyInfo, so that no certificate is issued for it',
    body: {},
  }),
  row({ usage: 'keys unblock <spki_sha256>', operation: 'unblockKey', about: 'Unblock a key' }),
  row({
    usage: 'issuers list',
    operation: 'listIssuers',
    about: 'List the CAs whose certificates the database has, newest first',
    query: OFFSET,
    columns: ['fingerprint', 'id', 'subject', 'not_after'],
  }),
  row({
    usage: 'issuers chain <fingerprint>',
    operation: 'getIssuerChain',
    about: 'Print the certificate of a CA and those above it as PEM',
  }),

  row({
    usage: 'names why <name>',
    operation: 'getNameHistory',
    about: 'Say why a name has its certificate or has none, and what happened to it, newest first',
    query: { before: optional('Only what happened before this date or time', text), ...LIMIT },
    text: nameText,
  }),

  row({
    usage: 'orders list',
    operation: 'listOrders',
    about: 'List orders by filters, newest first',
    query: { ...optionsOf(ORDER_FILTERS), ...PLACE },
    columns: ORDER_MEMBERS.table,
  }),
  row({
    usage: 'orders show <order_id>',
    operation: 'getOrder',
    about: 'Show an order with its authorizations and their evidence',
  }),
  row({
    usage: 'accounts list',
    operation: 'listAccounts',
    about: 'List ACME accounts by filters, newest first',
    query: { ...optionsOf(ACCOUNT_FILTERS), ...PLACE },
    columns: ACCOUNT_MEMBERS.table,
  }),
  row({
    usage: 'accounts show <account_id>',
    operation: 'getAccount',
    about: 'Show an account with its contacts',
  }),
  row({
    usage: 'accounts update <account_id>',
    operation: 'updateAccount',
    about: 'Give an account a name and tags; an empty value takes them away',
    body: {
      label: optional('Its name in lists', (value) => value || null),
      tags: optional('All its tags, with commas between them', tagsOf),
    },
  }),
  row({
    usage: 'accounts deactivate <account_id>',
    operation: 'deactivateAccount',
    about: 'Deactivate an account and its authorizations, permanently',
  }),
  row({
    usage: 'accounts allowed <account_id>',
    operation: 'listIdentifiersOfAccount',
    about: 'List the identifiers allowed to an account',
    query: PLACE,
    columns: ['identifier_type', 'identifier_value', 'created_at', 'id'],
  }),
  row({
    usage: 'terms show',
    operation: 'getTerms',
    about: 'Show the current terms of service, and how many accounts have agreed to them',
  }),

  row({
    usage: 'eab list',
    operation: 'listEabCredentials',
    about: 'List the credentials of external account binding, newest first',
    query: { ...optionsOf(CREDENTIAL_FILTERS), ...PLACE },
    columns: CREDENTIAL_MEMBERS.table,
  }),
  row({
    usage: 'eab show <cred_id>',
    operation: 'getEabCredential',
    about: 'Show a credential of external account binding',
  }),
  row({
    usage: 'eab update <cred_id>',
    operation: 'updateEabCredential',
    about: 'Give a credential of external account binding other tags; its accounts keep theirs',
    body: { tags: optional('All its tags, with commas between them', tagsOf) },
  }),
  row({
    usage: 'eab revoke <cred_id>',
    operation: 'revokeEabCredential',
    about: 'Revoke a credential, the accounts registered with it and their authorizations',
    text: revokedText,
  }),
  row({
    usage: 'identifiers list',
    operation: 'listIdentifiersOfAccount',
    ofEab: 'listIdentifiersOfEab',
    ofAll: 'listAllowedIdentifiers',
    about: 'List the identifiers that may be allowed, or those of an account or credential',
    query: PLACE,
    columns: ['identifier_type', 'identifier_value', 'created_at', 'id'],
  }),
  row({
    usage: 'identifiers show <identifier_id>',
    operation: 'getAllowedIdentifier',
    about: 'Show an identifier and which accounts and credentials may request it',
  }),
  row({
    usage: 'profiles list',
    operation: 'listCsrProfiles',
    about: 'List the CSR profiles, newest first',
    query: PLACE,
    columns: ['id', 'name', 'description', 'created_at'],
  }),
  row({
    usage: 'profiles show <profile_id>',
    operation: 'getCsrProfile',
    about: 'Show a CSR profile and the accounts and credentials that have it',
  }),
  row({
    usage: 'profiles delete <profile_id>',
    operation: 'deleteCsrProfile',
    about: 'Delete a CSR profile; its accounts get the profile of their credential, or none',
  }),
  row({
    usage: 'profiles assign <profile_id>',
    operation: 'assignCsrProfile',
    ofEab: 'assignCsrProfileToEab',
    about: 'Assign a CSR profile to an account, or to a credential and its accounts',
  }),
  row({
    usage: 'profiles unassign <profile_id>',
    operation: 'unassignCsrProfile',
    ofEab: 'unassignCsrProfileFromEab',
    about: 'Take a CSR profile away from an account, or from a credential and its accounts',
  }),
  row({
    usage: 'profiles assigned',
    operation: 'getCsrProfileOfAccount',
    ofEab: 'getCsrProfileOfEab',
    about: 'Show the CSR profile of an account or credential',
  }),

  row({
    ...PASSWORD,
    usage: 'admin create-user',
    operation: 'createUser',
    approval: true,
    about: 'Create an administrator and print the generated password, once',
    body: {
      username: optional('Name of the user (default admin)', text),
      ...EMAIL,
      ...ROLE,
      role: optional(`${ROLE_NAMES} (default admin)`, oneOf(ROLES)),
    },
    defaults: (config) => ({
      username: 'admin',
      role: 'admin' as const,
      email: config?.admin_api.initial_admin_email ?? undefined,
    }),
    further: '--username',
  }),
  row({
    usage: 'users list',
    operation: 'listUsers',
    about: 'List the users of the Admin API, newest first',
    query: PLACE,
    columns: ['id', 'username', 'email', 'role', 'scope', 'enabled'],
  }),
  row({
    ...PASSWORD,
    usage: 'users create <username>',
    operation: 'createUser',
    approval: true,
    about: 'Create a user of the Admin API and print the generated password, once',
    body: { ...EMAIL, ...ROLE },
    defaults: (config) => ({ email: config?.admin_api.initial_admin_email ?? undefined }),
  }),
  row({ usage: 'users show <user_id>', operation: 'getUser', about: 'Show a user' }),
  row({
    usage: 'users update <user_id>',
    operation: 'updateUser',
    approval: true,
    about: 'Change name, mail address, role, scope or access of a user, at once',
    body: {
      username: optional('New name', text),
      email: optional('New mail address', text),
      enabled: optional('true or false: whether the user may log in', flag),
      ...ROLE,
    },
    text: userText,
  }),
  row({
    usage: 'users delete <user_id>',
    operation: 'deleteUser',
    approval: true,
    about: 'Delete a user with all sessions and API tokens',
  }),
  row({
    ...PASSWORD,
    usage: 'users reset-password <user_id>',
    operation: 'resetPassword',
    approval: true,
    about: 'Generate a new password, print it once, and end all sessions and API tokens of the user',
  }),
  row({
    usage: 'users sessions <user_id>',
    operation: 'listSessionsOfUser',
    about: 'List the sessions of a user, newest first',
    query: LIMIT,
    columns: ['id', 'created_at', 'expires_at', 'ip_address', 'methods', 'user_agent'],
  }),
  row({
    usage: 'users end-session <user_id> <session_id>',
    operation: 'endSessionOfUser',
    about: 'End a session of a user, on every instance',
  }),
  row({ usage: 'me show', operation: 'getMe', about: 'Show who is logged in', needsSession: true }),
  row({
    usage: 'tokens list',
    operation: 'listTokens',
    about: 'List the API tokens, newest first',
    query: PLACE,
    columns: ['id', 'name', 'role', 'scope', 'expires_at', 'last_used_at', 'revoked_at'],
  }),
  row({
    usage: 'tokens create <name>',
    operation: 'createToken',
    about: 'Create an API token for a machine and print it, once',
    body: { ...ROLE, expires_at: optional('Date or time from which it is refused; never when absent', text) },
    remark: 'The token is not shown again.',
    needsSession: true,
  }),
  row({ usage: 'tokens revoke <token_id>', operation: 'revokeToken', about: 'Revoke an API token' }),
  row({
    usage: 'approvals list',
    operation: 'listApprovals',
    about: 'List requests for approval, newest first',
    query: { ...optionsOf(APPROVAL_FILTERS), ...PLACE },
    columns: ['id', 'status', 'maker', 'summary', 'reason', 'created_at'],
  }),
  row({ usage: 'approvals show <approval_id>', operation: 'getApproval', about: 'Show a request for approval' }),
  row({
    usage: 'approvals request <approval_id>',
    operation: 'getApprovalRequest',
    about: 'Show all of what was asked for, such as each serial number',
  }),
  row({
    usage: 'approvals approve <approval_id>',
    operation: 'approve',
    about: 'Approve a request of another person, which does what it asks for, and print your half of a new password',
    needsSession: true,
  }),
  row({
    usage: 'approvals reject <approval_id> <reason>',
    operation: 'reject',
    about: 'Reject a request of another person',
    needsSession: true,
  }),
  row({
    usage: 'approvals withdraw <approval_id>',
    operation: 'withdraw',
    about: 'Withdraw a request of your own',
    needsSession: true,
  }),
  row({
    usage: 'approvals collect <approval_id>',
    operation: 'collectApproved',
    about: 'Print the reply of an approved act of your own, once: it may have half a password, or a key',
    needsSession: true,
  }),
  row({
    usage: 'audit list',
    operation: 'listAuditLog',
    about: 'List the actions of administrators, newest first',
    query: { ...optionsOf(AUDIT_FILTERS), ...LIMIT, ...CURSOR },
    columns: ['created_at', 'action', 'username', 'details', 'id'],
  }),
  row({
    usage: 'audit export',
    operation: 'exportAuditLog',
    about: 'Print all entries of the audit log that match, one JSON object a line',
    body: optionsOf(AUDIT_FILTERS),
    isStream: true,
  }),

  row({
    usage: 'notifications list',
    operation: 'listNotifications',
    about: 'List notifications, newest first',
    query: { ...optionsOf(NOTIFICATION_FILTERS), ...OFFSET },
    columns: ['id', 'status', 'created_at', 'notification_type', 'recipient', 'error_detail'],
  }),
  row({
    usage: 'notifications retry',
    operation: 'retryNotifications',
    about: 'Queue failed notifications again: all, or those of one cause',
    body: optionsOf(pick(NOTIFICATION_FILTERS, ['notification_type', 'cause'])),
  }),
  row({
    usage: 'notifications causes',
    operation: 'listNotificationCauses',
    about: 'Group failed notifications by type and error',
    query: LIMIT,
    columns: ['notifications', 'recipients', 'last_at', 'notification_type', 'cause'],
  }),
  row({
    usage: 'notifications test',
    operation: 'sendTestMail',
    about: 'Send a test mail to your own address, and print what the mail server says',
    needsSession: true,
  }),
  row({
    usage: 'notifications purge',
    operation: 'purgeNotifications',
    about: 'Delete notifications that were sent or have failed',
    body: { days: optional('Only those older than this many days', whole(0, 1_000_000, 'takes a whole number')) },
  }),
  row({
    usage: 'events dead',
    operation: 'listDeadLetters',
    about: 'List events whose delivery has failed for good, newest first',
    query: OFFSET,
    columns: ['id', 'failed_at', 'consumer', 'kind', 'attempts', 'error'],
  }),
  row({
    usage: 'events retry <dead_letter_id>',
    operation: 'retryDeadLetter',
    about: 'Deliver such an event again',
  }),
  row({
    usage: 'events causes',
    operation: 'listDeadLetterCauses',
    about: 'Group undelivered events by consumer and error',
    query: LIMIT,
    columns: ['events', 'last_at', 'consumer', 'error'],
  }),
]

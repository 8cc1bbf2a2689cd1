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
  SERIAL_FILTERS,
} from '../../admin/resources/certificates.ts'
import { pick } from '../../admin/resources/filter.ts'
import { APPROVAL_FILTERS, AUDIT_FILTERS, NOTIFICATION_FILTERS } from '../../admin/resources/operation.ts'
import { SUMMARIES } from '../../admin/summaries.ts'
import { ROLES } from '../../domain/administrator.ts'
import { readReport } from '../../domain/incident.ts'
import { optional } from '../../shared/command-line.ts'
import { flag, json, oneOf, text, whole } from '../values.ts'
import { type OperationRow, row } from './admin-command.ts'
import { choiceOf, optionsOf } from './filter-options.ts'
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

const ISSUER = optionsOf(SERIAL_FILTERS)
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
  row({ ...MAINTENANCE, usage: 'maintenance status', operation: 'getMaintenance' }),
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
  row({ ...SIGNING, usage: 'signing status', operation: 'getSigning' }),
  row({ usage: 'workers status', operation: 'getWorkers', text: workersText }),

  row({ usage: 'crl status', operation: 'listCrls' }),
  row({
    usage: 'overview',
    operation: 'getOverview',
    about: [SUMMARIES.getOverview, 'Of the instances only with --server.'],
  }),
  row({ usage: 'settings', operation: 'getSettings', about: [SUMMARIES.getSettings, 'With --server only.'] }),
  row({
    usage: 'failures list',
    operation: 'listFailures',
    query: { ...optionsOf(FAILURE_FILTERS), ...OFFSET },
    columns: ['occurred_at', 'account_name', 'kind', 'data'],
  }),
  row({
    usage: 'certificates list',
    operation: 'listCertificates',
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
    query: { ...optionsOf(AT_RISK_FILTERS), ...PLACE },
    columns: ['serial_number', 'san_values', 'not_after', 'account_name', 'attempt'],
  }),
  row({ usage: 'certificates show <serial>', operation: 'getCertificate', query: ISSUER }),
  row({ usage: 'certificates by-fingerprint <fingerprint>', operation: 'getCertificateByFingerprint' }),
  row({ usage: 'certificates pem <serial>', operation: 'getCertificatePem', query: ISSUER }),
  row({ usage: 'certificates chain <serial>', operation: 'getCertificateChain', query: ISSUER }),
  row({
    usage: 'certificates unconfirmed',
    operation: 'listBackendRevocations',
    query: OFFSET,
    columns: ['certificate_id', 'backend', 'serial_number', 'attempts', 'error'],
  }),
  row({ usage: 'certificates give-up <certificate_id>', operation: 'giveUpBackendRevocation' }),
  row({
    usage: 'bulk-revocations list',
    operation: 'listBulkRevocations',
    query: OFFSET,
    columns: ['id', 'status', 'created_by', 'created_at', 'total_matched', 'revoked', 'errors_total'],
  }),
  row({ usage: 'bulk-revocations show <job_id>', operation: 'getBulkRevocation' }),
  row({ usage: 'bulk-revocations cancel <job_id>', operation: 'cancelBulkRevocation' }),
  row({
    usage: 'bulk-revocations results <job_id>',
    operation: 'listBulkRevocationCertificates',
    query: { ...LIMIT, ...CURSOR },
    columns: ['serial_number', 'outcome', 'certificate_id'],
  }),
  row({
    usage: 'incidents examine',
    operation: 'examineIncident',
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
    query: OFFSET,
    columns: ['id', 'created_at', 'created_by', 'certificates', 'filter', 'job_id'],
  }),
  row({
    usage: 'incidents begin',
    operation: 'beginIncident',
    approval: true,
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
  row({ usage: 'incidents show <incident_id>', operation: 'getIncident' }),
  row({ usage: 'incidents report <incident_id>', operation: 'getIncidentReport', isStream: true }),
  row({
    usage: 'keys list',
    operation: 'listBlockedKeys',
    query: PLACE,
    columns: ['spki_sha256', 'blocked_at', 'certificate_id'],
  }),
  row({
    usage: 'keys block <spki_sha256>',
    operation: 'blockKey',
    body: {},
  }),
  row({ usage: 'keys unblock <spki_sha256>', operation: 'unblockKey' }),
  row({
    usage: 'issuers list',
    operation: 'listIssuers',
    query: OFFSET,
    columns: ['fingerprint', 'id', 'subject', 'not_after'],
  }),
  row({ usage: 'issuers chain <fingerprint>', operation: 'getIssuerChain' }),

  row({
    usage: 'names why <name>',
    operation: 'getNameHistory',
    query: { before: optional('Only what happened before this date or time', text), ...LIMIT },
    text: nameText,
  }),

  row({
    usage: 'orders list',
    operation: 'listOrders',
    query: { ...optionsOf(ORDER_FILTERS), ...PLACE },
    columns: ORDER_MEMBERS.table,
  }),
  row({ usage: 'orders show <order_id>', operation: 'getOrder' }),
  row({
    usage: 'accounts list',
    operation: 'listAccounts',
    query: { ...optionsOf(ACCOUNT_FILTERS), ...PLACE },
    columns: ACCOUNT_MEMBERS.table,
  }),
  row({ usage: 'accounts show <account_id>', operation: 'getAccount' }),
  row({
    usage: 'accounts update <account_id>',
    operation: 'updateAccount',
    body: {
      label: optional('Its name in lists', (value) => value || null),
      tags: optional('All its tags, with commas between them', tagsOf),
    },
  }),
  row({ usage: 'accounts deactivate <account_id>', operation: 'deactivateAccount' }),
  row({
    usage: 'accounts allowed <account_id>',
    operation: 'listIdentifiersOfAccount',
    query: PLACE,
    columns: ['identifier_type', 'identifier_value', 'created_at', 'id'],
  }),
  row({ usage: 'terms show', operation: 'getTerms' }),

  row({
    usage: 'eab list',
    operation: 'listEabCredentials',
    query: { ...optionsOf(CREDENTIAL_FILTERS), ...PLACE },
    columns: CREDENTIAL_MEMBERS.table,
  }),
  row({ usage: 'eab show <cred_id>', operation: 'getEabCredential' }),
  row({
    usage: 'eab update <cred_id>',
    operation: 'updateEabCredential',
    body: { tags: optional('All its tags, with commas between them', tagsOf) },
  }),
  row({ usage: 'eab revoke <cred_id>', operation: 'revokeEabCredential', text: revokedText }),
  row({
    usage: 'identifiers list',
    operation: 'listIdentifiersOfAccount',
    ofEab: 'listIdentifiersOfEab',
    ofAll: 'listAllowedIdentifiers',
    about: 'List the identifiers that may be allowed, or those of an account or credential',
    query: PLACE,
    columns: ['identifier_type', 'identifier_value', 'created_at', 'id'],
  }),
  row({ usage: 'identifiers show <identifier_id>', operation: 'getAllowedIdentifier' }),
  row({
    usage: 'profiles list',
    operation: 'listCsrProfiles',
    query: PLACE,
    columns: ['id', 'name', 'description', 'created_at'],
  }),
  row({ usage: 'profiles show <profile_id>', operation: 'getCsrProfile' }),
  row({ usage: 'profiles delete <profile_id>', operation: 'deleteCsrProfile' }),
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
    query: PLACE,
    columns: ['id', 'username', 'email', 'role', 'scope', 'enabled'],
  }),
  row({
    ...PASSWORD,
    usage: 'users create <username>',
    operation: 'createUser',
    approval: true,
    body: { ...EMAIL, ...ROLE },
    defaults: (config) => ({ email: config?.admin_api.initial_admin_email ?? undefined }),
  }),
  row({ usage: 'users show <user_id>', operation: 'getUser' }),
  row({
    usage: 'users update <user_id>',
    operation: 'updateUser',
    approval: true,
    body: {
      username: optional('New name', text),
      email: optional('New mail address', text),
      enabled: optional('true or false: whether the user may log in', flag),
      ...ROLE,
    },
    text: userText,
  }),
  row({ usage: 'users delete <user_id>', operation: 'deleteUser', approval: true }),
  row({ ...PASSWORD, usage: 'users reset-password <user_id>', operation: 'resetPassword', approval: true }),
  row({
    usage: 'users sessions <user_id>',
    operation: 'listSessionsOfUser',
    query: LIMIT,
    columns: ['id', 'created_at', 'expires_at', 'ip_address', 'methods', 'user_agent'],
  }),
  row({ usage: 'users end-session <user_id> <session_id>', operation: 'endSessionOfUser' }),
  row({ usage: 'me show', operation: 'getMe', needsSession: true }),
  row({
    usage: 'tokens list',
    operation: 'listTokens',
    query: PLACE,
    columns: ['id', 'name', 'role', 'scope', 'expires_at', 'last_used_at', 'revoked_at'],
  }),
  row({
    usage: 'tokens create <name>',
    operation: 'createToken',
    body: { ...ROLE, expires_at: optional('Date or time from which it is refused; never when absent', text) },
    remark: 'The token is not shown again.',
    needsSession: true,
  }),
  row({ usage: 'tokens revoke <token_id>', operation: 'revokeToken' }),
  row({
    usage: 'approvals list',
    operation: 'listApprovals',
    query: { ...optionsOf(APPROVAL_FILTERS), ...PLACE },
    columns: ['id', 'status', 'maker', 'summary', 'reason', 'created_at'],
  }),
  row({ usage: 'approvals show <approval_id>', operation: 'getApproval' }),
  row({ usage: 'approvals request <approval_id>', operation: 'getApprovalRequest' }),
  row({ usage: 'approvals approve <approval_id>', operation: 'approve', needsSession: true }),
  row({ usage: 'approvals reject <approval_id> <reason>', operation: 'reject', needsSession: true }),
  row({ usage: 'approvals withdraw <approval_id>', operation: 'withdraw', needsSession: true }),
  row({ usage: 'approvals collect <approval_id>', operation: 'collectApproved', needsSession: true }),
  row({
    usage: 'audit list',
    operation: 'listAuditLog',
    query: { ...optionsOf(AUDIT_FILTERS), ...LIMIT, ...CURSOR },
    columns: ['created_at', 'action', 'username', 'details', 'id'],
  }),
  row({ usage: 'audit export', operation: 'exportAuditLog', body: optionsOf(AUDIT_FILTERS), isStream: true }),

  row({
    usage: 'notifications list',
    operation: 'listNotifications',
    query: { ...optionsOf(NOTIFICATION_FILTERS), ...OFFSET },
    columns: ['id', 'status', 'created_at', 'notification_type', 'recipient', 'error_detail'],
  }),
  row({
    usage: 'notifications retry',
    operation: 'retryNotifications',
    body: optionsOf(pick(NOTIFICATION_FILTERS, ['notification_type', 'cause'])),
  }),
  row({
    usage: 'notifications causes',
    operation: 'listNotificationCauses',
    query: LIMIT,
    columns: ['notifications', 'recipients', 'last_at', 'notification_type', 'cause'],
  }),
  row({ usage: 'notifications test', operation: 'sendTestMail', needsSession: true }),
  row({
    usage: 'notifications purge',
    operation: 'purgeNotifications',
    body: { days: optional('Only those older than this many days', whole(0, 1_000_000, 'takes a whole number')) },
  }),
  row({
    usage: 'events dead',
    operation: 'listDeadLetters',
    query: OFFSET,
    columns: ['id', 'failed_at', 'consumer', 'kind', 'attempts', 'error'],
  }),
  row({ usage: 'events retry <dead_letter_id>', operation: 'retryDeadLetter' }),
  row({
    usage: 'events causes',
    operation: 'listDeadLetterCauses',
    query: LIMIT,
    columns: ['events', 'last_at', 'consumer', 'error'],
  }),
]

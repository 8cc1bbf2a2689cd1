/**
 * Running the service: `database`, `logging`, `metrics`, `admin_api`, `retention`, `audit_retention`, `audit_export`.
 */

import * as z from 'zod/v4'
import { ENVIRONMENT_COLORS, ROLES } from '../../domain/administrator.ts'
import { isTag, TAG_RULE } from '../../domain/permissions.ts'
import {
  checkedText,
  choice,
  EMAIL,
  entry,
  flag,
  HTTP_URL,
  httpUrl,
  isEmail,
  isHttpUrl,
  list,
  optionalText,
  optionalWhole,
  port,
  seconds,
  section,
  setting,
  text,
  urlPath,
  whole,
} from '../field.ts'

/** More than a cluster has members. */
const MAX_HOSTS = 16

const MIB = 1024 * 1024

export const Database = entry('The PostgreSQL database.', {
  host: setting(
    z
      .union([z.string().min(1), z.array(z.string().min(1)).min(1).max(MAX_HOSTS)])
      .default('localhost')
      .transform((hosts) => [hosts].flat()),
    'Host of the PostgreSQL server, or the folder of its Unix socket; or a list: the first server that takes writes is used.',
    { expects: `a host, or a list of 1 to ${MAX_HOSTS} hosts` },
  ),
  port: setting(port(5432), 'Port of the PostgreSQL server.'),
  database: setting(z.string().min(1), 'Name of the database.'),
  user: setting(z.string().min(1), 'Name of the role.'),
  password: setting(optionalText(), 'Password of the role.', { secret: true }),
  sslmode: setting(
    choice(['disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full'], 'prefer'),
    'Values of libpq; `allow` means `prefer`. Without TLS, a clear-text password is sent over a Unix socket only.',
    {
      defaultText: '`prefer` for a Unix socket and loopback, `verify-full` for any other host or with `sslrootcert`',
    },
  ),
  sslrootcert: setting(
    optionalText(),
    'PEM file with the CA certificates that `verify-ca` and `verify-full` trust; without it, those that Node.js trusts.',
  ),
  min_connections: setting(
    whole(1, 5),
    'Idle connections that are kept; divided among the front threads, at least one each.',
  ),
  max_connections: setting(
    whole(1, 20),
    'Most connections of the whole instance, all threads together. 10 do for three front threads.',
  ),
  connection_timeout: setting(z.number().positive().default(10), 'Wait for a connection.', { unit: 'seconds' }),
  max_idle_seconds: setting(z.number().positive().default(300), 'Time after which an idle connection is closed.', {
    unit: 'seconds',
  }),
  auto_setup: setting(flag(false), 'Create or migrate the tables at start.'),
  reconcile: setting(
    choice(['automatic', 'manual'], 'automatic'),
    'What follows when the database lacks what the signer has recorded, as after a fail-over: `automatic` brings it back, `manual` raises an alarm, and builds no CRL until `chancery reconcile` was run. While it lacks a decision that restricts, nobody works with it.',
  ),
  decisions_file: setting(
    optionalText(),
    'File for decisions that the signer does not take: it is away, its disk is full, or there is none. Each instance has its own. Without it, `decisions.jsonl` beside the audit chain of a signer that the service starts itself, else in the working folder. Where that cannot be written either, an act is answered 503.',
  ),
})

const AuditLog = section(
  'Audit records: changes of accounts, orders and certificates, and actions of administrators.',
  {
    enabled: setting(flag(true), 'Write audit records.'),
    file: setting(optionalText(), 'File of the audit records, one JSON object a line, mode 0600.'),
    syslog: setting(
      flag(false),
      'Send audit records to `audit_export.syslog_host`, or without one to the syslog daemon of this host.',
    ),
    max_file_size_bytes: setting(
      z
        .int()
        .min(MIB)
        .max(1024 * MIB)
        .default(100 * MIB),
      'Size at which a new file is begun.',
      { unit: 'bytes' },
    ),
    backup_count: setting(z.int().min(1).max(100).default(10), 'Older files that are kept.'),
  },
)

export const Logging = section('The log on standard output.', {
  level: setting(
    choice(['DEBUG', 'INFO', 'WARNING', 'ERROR', 'CRITICAL'], 'INFO'),
    'Least severe line that is written. Start, stop and reload are always written.',
    {
      reload: 'live',
    },
  ),
  format: setting(choice(['json', 'human'], 'json'), 'One JSON object per line, or text for people.'),
  audit: AuditLog,
})

export const Metrics = section('Metrics.', {
  enabled: setting(flag(false), 'Offer metrics in the Prometheus text format.', { reload: 'live' }),
  path: setting(urlPath('/metrics'), 'Path of the metrics.'),
  auth_required: setting(flag(false), 'Ask for an admin token.'),
})

const AdminListen = z
  .strictObject({
    bind: setting(text('127.0.0.1'), 'Address of the Admin API’s own port.'),
    port: setting(z.int().min(1).max(65535), 'That port. The public port then answers 404 for the Admin API.'),
    cert_file: setting(optionalText(), 'PEM file with the certificate chain of that port; without it, plain HTTP.'),
    key_file: setting(optionalText(), 'PEM file with its key.'),
  })
  .nullable()
  .default(null)
  .meta({ description: 'A port of its own for the Admin API.' })

/** Fits beside the name of the page on a phone. */
const MOST_OF_A_NAME = 24

const Environment = z
  .strictObject({
    name: setting(
      z.string().min(1).max(MOST_OF_A_NAME),
      'Name of the installation, such as Production, on every page of the console.',
    ),
    color: setting(choice(ENVIRONMENT_COLORS, 'gray'), 'Colour of the name and of the icon in the browser.'),
  })
  .nullable()
  .default(null)
  .meta({ description: 'Tells the consoles of several installations apart.' })

const OidcRole = entry('A group and its role.', {
  group: setting(z.string().min(1).max(255), 'Group, exactly as the provider names it.'),
  role: setting(z.enum(ROLES), 'Role of its members.'),
  scope: setting(list(checkedText(TAG_RULE, isTag)), 'Tags that a registrar looks after.'),
})

const Oidc = z
  .strictObject({
    issuer: setting(httpUrl(), 'Issuer identifier of the provider: `https://`, or `http://` on this machine.'),
    client_id: setting(z.string().min(1).max(255), 'Client that the provider knows this service as.'),
    client_secret: setting(optionalText(), 'Its secret; without one it is a public client, with PKCE alone.', {
      secret: true,
    }),
    token_endpoint_auth_method: setting(
      z.enum(['client_secret_basic', 'client_secret_post']).nullable().default(null),
      'How the secret goes to the token endpoint, where the provider lists several methods and takes one of this client.',
      { defaultText: '`client_secret_basic` if the provider lists it or lists none, else `client_secret_post`' },
    ),
    name: setting(text('OpenID Connect'), 'Name of the provider, on the button of the sign-in page.'),
    scopes: setting(list(z.string().min(1), ['openid', 'profile', 'email']), 'Scopes that are asked for.'),
    username_claim: setting(text('preferred_username'), 'Claim with the username of a user who is made.'),
    groups_claim: setting(
      text('groups'),
      'Claim with the groups, in the ID token or from the userinfo endpoint. Here and in `username_claim`, dots lead into objects: `realm_access.roles`.',
    ),
    roles: setting(
      z.array(OidcRole).min(1).max(100),
      'Which group has which role: the first that a user is in. Others are refused.',
    ),
    ca_file: setting(
      optionalText(),
      'PEM file with the authorities of the provider’s certificate; those of the system when absent.',
    ),
  })
  .nullable()
  .default(null)
  .meta({ description: 'Sign-in of administrators by an OpenID Connect provider, beside passwords.' })

const Approvals = section('Acts of administrators that another person has to approve.', {
  bulk_revocation_above: setting(
    optionalWhole(0),
    'A bulk revocation of more certificates needs the approval of another person; none does when absent.',
  ),
  resume_signing: setting(flag(false), 'To resume signing needs approval.'),
  user_changes: setting(flag(false), 'To make, change or delete a user, or to reset a password, needs approval.'),
  new_names: setting(flag(false), 'To grant a name that no credential and no account has been granted needs approval.'),
  expire_after_hours: setting(z.int().min(1).max(720).default(72), 'Hours for the decision.'),
})

export const AdminApi = section('The Admin API.', {
  enabled: setting(flag(false), 'Offer the Admin API.'),
  base_path: setting(urlPath('/api'), 'Path in front of every Admin API resource.'),
  console: setting(flag(true), 'Offer the console, a web page for administrators, at `{base_path}/console/`.'),
  console_url: setting(
    optionalText(isHttpUrl),
    'Address of the console in browsers, such as `https://ca.example/api/console/`; `{server.external_url}{base_path}/console/` when absent. Passkeys are bound to its host name.',
    { expects: HTTP_URL },
  ),
  environment: Environment,
  oidc: Oidc,
  require_second_factor: setting(
    flag(false),
    'A password alone does not sign in: a passkey or OpenID Connect has to be there. Users without a passkey register one first.',
  ),
  token_secret: setting(
    optionalText(),
    'Signs tokens of the Admin API, and encrypts stored HMAC keys without `acme.eab_key_file`. At least 16 bytes; 32 random ones are advised.',
    {
      secret: true,
    },
  ),
  token_expiry_seconds: seconds(1, 3600, 'Lifetime of a token.'),
  initial_admin_email: setting(optionalText(isEmail), 'Address of the first administrator.', { expects: EMAIL }),
  password_length: setting(whole(8, 20), 'Length of generated passwords.'),
  default_page_size: setting(whole(1, 50), 'Entries per page of a list.'),
  max_page_size: setting(
    whole(1, 1000),
    'Most entries per page a client may ask for. A page of 1,000 accounts costs PostgreSQL up to a second, as it counts their certificates.',
  ),
  max_body_bytes: setting(whole(1024, 4 * MIB), 'Largest request body; no endpoint takes more than 1 MiB.', {
    unit: 'bytes',
  }),
  bulk_revoke_confirm_above: setting(
    optionalWhole(0),
    'A bulk revocation of more certificates needs their number in `confirm_count`; none does when absent.',
  ),
  recent_sign_in_seconds: seconds(
    0,
    900,
    'Before the gravest acts a user must have signed in or confirmed within this time; 0 for no such rule.',
  ),
  approvals: Approvals,
  audit_key_file: setting(
    optionalText(),
    'File with at least 32 random bytes, the key of the audit log’s chain; derived from `token_secret` when absent.',
  ),
  listen: AdminListen,
})

const age = (days: number, subject: string) =>
  setting(whole(1, days), `Age at which ${subject} are deleted.`, { unit: 'days' })
const timeAfterEnd = (days: number, sentence: string) => setting(whole(1, days), sentence, { unit: 'days' })

export const Retention = section('Deletion of old rows.', {
  enabled: setting(flag(true), 'Delete old rows.'),
  invalid_order_max_age_days: timeAfterEnd(30, 'Time after its expiry at which an invalid order is deleted.'),
  expired_authz_max_age_days: timeAfterEnd(
    30,
    'Time after its expiry at which an authorization is deleted with its challenges, if no order can use it.',
  ),
  invalid_challenge_max_age_days: timeAfterEnd(
    30,
    'Time after its expiry at which an invalid authorization is deleted with its challenge, where this is less.',
  ),
  certificates_days_after_expiry: setting(
    optionalWhole(1, 36500),
    'Time after its expiry at which a certificate is archived with its order and deleted; kept when absent.',
    { unit: 'days' },
  ),
  archive_dir: setting(
    optionalText(),
    'Folder of the archive, which `certificates show --archive` reads; needed by `certificates_days_after_expiry`.',
  ),
  expiration_notice_max_age_days: age(90, 'records of expiration warnings'),
  notification_max_age_days: age(90, 'notifications, sent or not,'),
  cleanup_interval_seconds: seconds(1, 86400, 'Pause between two runs of a deletion.'),
  cleanup_loop_interval_seconds: seconds(1, 60, 'Pause between two looks for work that is due.'),
})

export const AuditRetention = section('Deletion of old audit log entries.', {
  enabled: setting(flag(false), 'Delete old entries of the audit log.'),
  max_age_days: age(90, 'entries'),
  cleanup_interval_seconds: seconds(1, 86400, 'Pause between two runs.'),
})

export const AuditExport = section('Export of audit events.', {
  webhook_url: setting(optionalText(isHttpUrl), 'URL that receives audit events.', {
    expects: HTTP_URL,
    secret: true,
  }),
  webhook_batch: setting(
    z.int().min(1).max(500).default(1),
    'Most events of one request. With more than 1 a request has an array of them, which costs much less; the receiver has to expect it.',
  ),
  webhook_allow_private: setting(
    flag(false),
    'Permits a webhook on a loopback, private or link-local address, as `allow_private` does for a hook.',
  ),
  syslog_host: setting(optionalText(), 'Host that receives audit events as syslog messages.'),
  syslog_port: setting(port(514), 'Port of that host.'),
  syslog_transport: setting(
    z.enum(['udp', 'tcp', 'tls']).nullable().default(null),
    'Protocol (RFC 5424 messages). UDP promises nothing: each message is sent once, cut after 2048 bytes.',
    { defaultText: '`tls` for port 6514, else `udp`' },
  ),
  syslog_ca_file: setting(
    optionalText(),
    'PEM file with the CA certificates that the daemon’s has to chain to; without it, those that Node.js knows.',
  ),
})

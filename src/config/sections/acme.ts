/** Behaviour of the ACME interface: `acme`, `api`, `email`, `account`, `nonce`, `order`, `quotas`, `tos`, `ari`. */

import * as z from 'zod/v4'
import {
  checkedText,
  choice,
  flag,
  HTTP_URL,
  isDomain,
  isHttpUrl,
  isUrlPath,
  list,
  optionalText,
  optionalWhole,
  seconds,
  section,
  setting,
  URL_PATH,
  urlPath,
  whole,
} from '../field.ts'

const domainName = () => checkedText('a domain name', (value) => isDomain(value.replace(/\.$/, '')))

const Paths = section('Paths below `api.base_path`.', {
  directory: setting(urlPath('/directory'), 'Directory.'),
  new_nonce: setting(urlPath('/new-nonce'), 'New nonce.'),
  new_account: setting(urlPath('/new-account'), 'New account.'),
  new_order: setting(urlPath('/new-order'), 'New order.'),
  new_authz: setting(urlPath('/new-authz'), 'Pre-authorization.'),
  revoke_cert: setting(urlPath('/revoke-cert'), 'Revocation.'),
  key_change: setting(urlPath('/key-change'), 'Account key change.'),
})

export const Acme = section('The ACME interface (RFC 8555).', {
  paths: Paths,
  directory_aliases: setting(
    list(checkedText(URL_PATH, isUrlPath)),
    'Whole paths of a former server at which the directory is found, too, such as /acme/acme/directory.',
  ),
  website_url: setting(optionalText(isHttpUrl), 'Web site named in the directory.', { expects: HTTP_URL }),
  caa_identities: setting(
    list(domainName()),
    'Issuer domain names of this service in CAA records (RFC 8659). The directory lists them.',
  ),
  caa_enforce: setting(
    flag(true),
    'Check CAA at validation, and at finalize after eight hours. Without `caa_identities` nothing is checked.',
  ),
  caa_unreachable_ok: setting(
    list(domainName()),
    'Zones where a failed CAA look-up counts as no records, unless the zone above has a DS record.',
  ),
  eab_required: setting(flag(false), 'New accounts need an external account binding (RFC 8555 §7.3.4).'),
  eab_reusable: setting(flag(false), 'One binding credential may be used by several accounts.'),
  eab_key_file: setting(
    optionalText(),
    'File with at least 32 random bytes that encrypt stored HMAC keys; `admin_api.token_secret` when absent.',
  ),
  orders_page_size: setting(whole(1, 50), "Orders per page of an account's list."),
})

export const Api = section('Paths of the interface in its URLs.', {
  base_path: setting(
    z
      .string()
      .refine((value) => value === '' || isUrlPath(value))
      .default(''),
    'Path in front of every ACME resource, behind that of `server.external_url`.',
    { expects: 'empty or a path such as /acme: a slash first, none last' },
  ),
  roots_path: setting(
    optionalText(isUrlPath),
    "Path at which the roots of the signer's issuers are served as PEM, such as `/roots.pem`; when absent, none are.",
    { expects: 'a path such as /roots.pem' },
  ),
  roots_file: setting(
    optionalText(),
    'PEM file with further roots to serve there: those that the chains do not contain, those of other CAs, and former ones.',
  ),
})

export const Email = section('Contact addresses of accounts.', {
  require_contact: setting(flag(false), 'New accounts need at least one contact.'),
  allowed_domains: setting(list(z.string().min(1)), 'Mail domains that contacts may have; empty allows all.'),
  validate_mx: setting(
    flag(false),
    'Contacts need a mail domain with an MX or address record; a failed look-up is no obstacle.',
  ),
})

export const Account = section('Rights of account holders.', {
  allow_contact_update: setting(flag(true), 'Holders may change their contacts.'),
  allow_deactivation: setting(flag(true), 'Holders may deactivate their account.'),
})

export const Nonce = section('Anti-replay nonces (RFC 8555 §6.5).', {
  store: setting(
    choice(['memory', 'database'], 'memory'),
    'Where used nonces are kept: `memory` for one instance, `database` for several behind one name.',
  ),
  expiry_seconds: seconds(1, 3600, 'Time a nonce stays usable.'),
  max_age_seconds: setting(optionalWhole(1), 'A stricter limit than `expiry_seconds`.', {
    unit: 'seconds',
  }),
  gc_interval_seconds: seconds(1, 300, 'Pause between two removals of expired nonces.'),
  length: setting(optionalWhole(16, 128), 'Without effect: nonces are 16 bytes before encoding.', {
    unit: 'bytes',
  }),
  audit_consumed: setting(
    flag(false),
    'Record each used nonce in the table `nonce_audit`, for `audit_retention.max_age_days`.',
  ),
})

export const Order = section('Life of orders and authorizations.', {
  expiry_seconds: seconds(1, 604800, 'Time an order can be completed.'),
  authorization_expiry_seconds: seconds(1, 2592000, 'Time an authorization can be used.'),
  pre_authorization_lifetime_days: setting(whole(1, 30), 'Time a pre-authorization can be used.', { unit: 'days' }),
  cleanup_interval_seconds: seconds(1, 3600, 'Pause between two runs of the order clean-up.'),
  stale_processing_threshold_seconds: seconds(
    1,
    600,
    'Age at which an order in processing is recovered while its instance runs; after the instance has stopped, within seconds.',
  ),
  retry_after_seconds: seconds(1, 3, 'Retry-After of orders and authorizations that are not finished.'),
  finalize_wait_ms: setting(
    whole(0, 2000),
    'How long finalize waits for the certificate before it answers `processing`.',
    { unit: 'milliseconds' },
  ),
})

export const Quotas = section('Daily quotas of accounts.', {
  enabled: setting(flag(false), 'Enforce the quotas below.'),
  max_certificates_per_account_per_day: setting(whole(0, 0), 'Certificates per account and day; 0 is no limit.'),
  max_orders_per_account_per_day: setting(whole(0, 0), 'Orders per account and day; 0 is no limit.'),
})

export const Tos = section('Terms of service.', {
  url: setting(optionalText(isHttpUrl), 'Terms of service named in the directory.', { expects: HTTP_URL }),
  require_agreement: setting(flag(false), 'New accounts have to agree to the terms.'),
  version: setting(
    optionalText(),
    'Version of the terms, such as a date. Accounts that agreed to another may not order.',
  ),
  instructions_url: setting(
    optionalText(isHttpUrl),
    'Page on how to agree, named to clients that must; `tos.url` when absent.',
    { expects: HTTP_URL },
  ),
})

export const Ari = section('ACME renewal information.', {
  enabled: setting(flag(false), 'Offer renewal information (RFC 9773).'),
  path: setting(urlPath('/renewalInfo'), 'Path of the resource.'),
  renewal_percentage: setting(
    z.number().min(0.01).max(1).default(0.6667),
    'Share of the lifetime after which the renewal window opens.',
  ),
  revoked_window_seconds: setting(
    z.int().min(1).nullable().default(3600),
    "Length of a revoked certificate's window, which opens at once; null makes it the rest of its lifetime.",
    { unit: 'seconds' },
  ),
  max_retry_after_seconds: seconds(
    3600,
    21600,
    'Upper bound of the Retry-After header. `retryAfter` in the body is the time until the window opens.',
  ),
})

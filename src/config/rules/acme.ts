/** Rules for accounts, keys and the terms of service. */

import { not, type Rule, required } from './rule.ts'

export const ACME: readonly Rule[] = [
  not(
    'security.min_rsa_key_size',
    ['security.max_rsa_key_size'],
    (c) => c.security.min_rsa_key_size > c.security.max_rsa_key_size,
    (c) =>
      `is ${c.security.min_rsa_key_size}; must be at most security.max_rsa_key_size, which is ${c.security.max_rsa_key_size}`,
  ),
  not(
    'acme.eab_required',
    ['acme.eab_key_file', 'admin_api.token_secret'],
    (c) => c.acme.eab_required && c.acme.eab_key_file === null && c.admin_api.token_secret === null,
    'is true, and there is no secret to store binding credentials under; set acme.eab_key_file or admin_api.token_secret',
  ),
  {
    path: 'acme.caa_enforce',
    reads: ['acme.caa_identities'],
    check: (c, isSet) =>
      isSet('acme.caa_enforce') && c.acme.caa_enforce && c.acme.caa_identities.length === 0
        ? 'is true, and acme.caa_identities is empty: no record could permit this service; list its issuer domain names there'
        : undefined,
  },
  {
    path: 'acme.paths',
    check(c) {
      const paths = Object.values(c.acme.paths)
      const twice = paths.find((path, index) => paths.indexOf(path) !== index)
      return twice === undefined ? undefined : `gives ${twice} to two resources; each needs a path of its own`
    },
  },
  required(
    'tos.url',
    (c) => c.tos.require_agreement,
    (c) => c.tos.url,
    'tos.require_agreement needs terms to agree to',
    ['tos.require_agreement'],
  ),
  not(
    'tos.version',
    ['tos.require_agreement'],
    (c) => c.tos.version !== null && !c.tos.require_agreement,
    'is set, but tos.require_agreement is false; switch it on, or leave the version out',
  ),
]

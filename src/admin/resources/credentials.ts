/** Credentials of external account binding: by what they are listed. */

import type { Filters, FilterValues } from './filter.ts'

export const CREDENTIAL_FILTERS = {
  kid: { kind: 'line', label: 'Key identifier', says: 'Only the one with this key identifier.' },
  name: {
    kind: 'line',
    label: 'Key identifier or label',
    says: 'Part of its kid or its label, in any case.',
    field: true,
  },
  tag: { kind: 'tag', label: 'Tag', says: 'Only those with this tag.', field: true },
  status: {
    kind: { open: 'Active', expired: 'Expired', revoked: 'Revoked' },
    label: 'Status',
    says: 'Open ones are neither revoked nor expired; they may be used up.',
    field: true,
  },
} as const satisfies Filters
export type CredentialQuery = FilterValues<typeof CREDENTIAL_FILTERS>

export const CREDENTIAL_COLUMNS = {
  table: ['id', 'kid', 'label', 'tags', 'revoked', 'used', 'created_at'],
  file: [
    'id',
    'kid',
    'label',
    'tags',
    'used',
    'used_at',
    'revoked',
    'expires_at',
    'uses',
    'max_uses',
    'account_id',
    'account_name',
    'allowed_networks',
    'profiles',
    'created_at',
  ],
} as const

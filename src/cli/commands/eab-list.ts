/** `chancery eab list`: pages of credentials for external account binding, as lines or JSON. */

import type { Config } from '../../config/schema.ts'
import { renderTimestamp } from '../../shared/protocol/timestamp.ts'
import { type ListedCredential, listEabCredentials } from '../../store/eab-list.ts'
import { type PageOptions, printPage } from './list-output.ts'

export function listCredentials(config: Config, options: PageOptions): Promise<number> {
  return printPage(config, options, {
    name: 'credentials',
    read: listEabCredentials,
    render: (rows) => rows.map(describe).join('\n'),
    report: (row) => ({
      id: row.id,
      kid: row.kid,
      label: row.label,
      status: stateOf(row),
      account_id: row.account_id,
      profiles: row.profiles,
      preapproved_networks: row.preapproved_networks,
      expires_at: row.expires_at && renderTimestamp(row.expires_at),
      max_uses: row.max_uses,
      uses: row.uses,
      allowed_networks: row.allowed_networks,
      used_at: row.used_at && renderTimestamp(row.used_at),
      created_at: renderTimestamp(row.created_at),
    }),
  })
}

function stateOf({ used, revoked }: ListedCredential): string {
  return revoked ? 'revoked' : used ? 'used' : 'unused'
}

function describe(credential: ListedCredential): string {
  const { kid, label, account_id, used_at, created_at, profiles, preapproved_networks } = credential
  const { expires_at, max_uses, uses, allowed_networks } = credential
  const facts = [
    `made ${created_at.toISOString()}`,
    ...(used_at ? [`used ${used_at.toISOString()}`] : []),
    ...(account_id ? [`account ${account_id}`] : []),
    ...(profiles ? [`profiles ${profiles.join(',')}`] : []),
    ...(preapproved_networks ? [`preapproved from ${preapproved_networks.join(',')}`] : []),
    ...(expires_at ? [`expires ${expires_at.toISOString()}`] : []),
    ...(max_uses === null ? [] : [`uses ${uses} of ${max_uses}`]),
    ...(allowed_networks ? [`from ${allowed_networks.join(',')}`] : []),
    ...(label ? [JSON.stringify(label)] : []),
  ]
  return `${stateOf(credential).padEnd(7)}  ${kid}  ${facts.join('  ')}`
}

/** `chancery keys …`: blocked keys, through the use cases of the Admin API. */

import type { Config } from '../../config/schema.ts'
import { BlockedKeys } from '../../services/admin/blocked-keys.ts'
import { UsageError } from '../../shared/command-line/options.ts'
import { type BlockedKeyRow, listBlockedKeys } from '../../store/admin/blocked-key-store.ts'
import { tableOf } from '../table.ts'
import { withAdministration } from './administration.ts'
import { type PageOptions, printPage } from './list-output.ts'

const whyOf = ({ certificate_id: certificate, by_administrator: isOurs }: BlockedKeyRow) =>
  certificate ? `revocation of ${certificate}` : isOurs ? 'administrator' : 'file'

export function listKeys(config: Config, options: PageOptions): Promise<number> {
  return printPage<BlockedKeyRow>(config, options, {
    name: 'keys',
    read: listBlockedKeys,
    report: (row) => row,
    render: tableOf(['SHA-256 of the key', 'blocked', 'by'], (row) => [
      ...[row.spki_sha256, row.blocked_at.toISOString(), whyOf(row)],
    ]),
  })
}

export async function blockKey(config: Config, typed: string, json: boolean): Promise<number> {
  const hash = hashOf(typed)
  const row = await withAdministration(config, ({ db, audit, actor }) => new BlockedKeys(db, audit).block(actor, hash))
  console.log(json ? JSON.stringify(row) : `blocked  ${hash}`)
  return 0
}

export async function unblockKey(config: Config, typed: string, json: boolean): Promise<number> {
  const hash = hashOf(typed)
  await withAdministration(config, ({ db, audit, actor }) => new BlockedKeys(db, audit).unblock(actor, hash))
  console.log(json ? JSON.stringify({ unblocked: hash }) : `unblocked  ${hash}`)
  return 0
}

function hashOf(typed: string): string {
  if (/^[0-9a-f]{64}$/i.test(typed)) return typed.toLowerCase()
  throw new UsageError('a key is named by the SHA-256 of its SubjectPublicKeyInfo: 64 hexadecimal digits')
}

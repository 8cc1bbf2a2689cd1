/**
 * TXT records that a client's hook writes, and a name server that answers from them.
 *
 * The hook is a shell script that speaks to certbot (manual hooks), lego (`exec`), dehydrated, uacme and mod_md; records are files, one a
 * value, in a folder a name. It is as much as a client's user writes to publish a record in a zone of his own.
 */

import { chmodSync, existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { NXDOMAIN, type ScriptedDns, soa, startDns, txt } from '../../workers/scripted-dns.ts'

const HOOK = `#!/bin/sh
set -e
if [ -n "$CERTBOT_DOMAIN" ]; then
  action=$1 name=_acme-challenge.$CERTBOT_DOMAIN value=$CERTBOT_VALIDATION
elif [ "$2" = dns-01 ]; then
  action=$1 name=_acme-challenge.$3 value=$5
elif [ "$1" = begin ]; then
  exit 1
elif [ "$1" = setup ] || [ "$1" = teardown ]; then
  action=$1 name=_acme-challenge.$2 value=$3
elif [ "$1" = deploy_challenge ] || [ "$1" = clean_challenge ]; then
  action=$1 name=_acme-challenge.$2 value=$4
else
  action=$1 name=\${2%.} value=$3
fi
case $action in
  present | deploy_challenge | begin | setup) mkdir -p "$RECORDS/$name" && : > "$RECORDS/$name/$value" ;;
  teardown) rm -rf "$RECORDS/$name" ;;
  cleanup | clean_challenge | done | failed) rm -f "$RECORDS/$name/$value" ;;
esac
`

export interface DnsRecords {
  server: ScriptedDns
  /** Executable; needs RECORDS in its environment. */
  hookFile: string
  env: { RECORDS: string }
  publish(name: string, ...values: readonly string[]): void
  values(name: string): string[]
  close(): Promise<void>
}

/** @param folder where the hook and the records go; exists */
export async function startDnsRecords(folder: string): Promise<DnsRecords> {
  const records = path.join(folder, 'records')
  const hookFile = path.join(folder, 'dns-hook')
  mkdirSync(records)
  // Apache runs the hook as another user.
  chmodSync(folder, 0o755)
  chmodSync(records, 0o777)
  writeFileSync(hookFile, HOOK)
  chmodSync(hookFile, 0o755)

  const folderOf = (name: string) => path.join(records, name)
  const values = (name: string) => (existsSync(folderOf(name)) ? readdirSync(folderOf(name)) : [])
  const server = await startDns(({ name, type }) => {
    if (!existsSync(folderOf(name))) return { rcode: NXDOMAIN, authorities: [soa('test')] }
    return { answers: type === 'TXT' ? values(name).map((value) => txt(name, value)) : [] }
  })
  return {
    server,
    hookFile,
    env: { RECORDS: records },
    publish(name, ...published) {
      rmSync(folderOf(name), { recursive: true, force: true })
      mkdirSync(folderOf(name))
      for (const value of published) writeFileSync(path.join(folderOf(name), value), '')
    },
    values,
    close: () => server.close(),
  }
}

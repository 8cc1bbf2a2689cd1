/** Commands on a database beside which no service runs. */

import { writeFileSync } from 'node:fs'
import { stringify } from 'yaml'
import type { DatabaseSettings } from '../../src/store/database.ts'
import { runChancery } from '../support/commands.ts'

/** @returns the file */
export function configFor({ hosts: host, port, database, user, password }: DatabaseSettings, file: string): string {
  const config = {
    server: { external_url: 'http://127.0.0.1:1', workers: 1 },
    database: { host, port, database, user, ...(password && { password }), sslmode: 'disable' },
    ca: { internal: { root_cert_path: 'ca.pem', root_key_path: 'ca.key' } },
  }
  writeFileSync(file, stringify(config))
  return file
}

/** @returns what was printed, without the warnings that every command has on the database of the tests */
export async function runWith(configFile: string, ...words: string[]) {
  const { code, stdout, stderr } = await runChancery(['-c', configFile, ...words])
  return { code, out: stdout, complaint: stderr.replaceAll(/^warning: .*\n/gm, '') }
}

/** `chancery users import`: users of another service, with their password hashes. */

import { importUsers } from '../../admin/users/users.ts'
import { readConfigFile } from '../config-file.ts'
import { withAdministration } from '../operator-database.ts'
import type { Printing } from '../values.ts'
import { readUserFile } from './user-file.ts'

export async function importUserFile({ config: name, json }: Printing, file: string): Promise<number> {
  const config = await readConfigFile(name)
  const wanted = readUserFile(file)
  const taken = await withAdministration(config, ({ audit, actor }) => importUsers(audit, actor, wanted))
  const imported = wanted.length - taken.length
  if (json) console.log(JSON.stringify({ imported, taken }))
  else {
    console.log(`${imported} ${imported === 1 ? 'user is' : 'users are'} imported`)
    for (const username of taken) console.error(`${username} is there already, and stays as it is`)
  }
  return 0
}

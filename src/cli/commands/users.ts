/** `chancery users import`: users of another service, with their password hashes. */

import { HASHING_HERE, PasswordHasher } from '../../admin/users/passwords.ts'
import { Users } from '../../admin/users/users.ts'
import { adminSettings } from '../../settings/admin.ts'
import type { Printing } from '../values.ts'
import { withAdministration } from './administration.ts'
import { readConfigFile } from './config-file.ts'
import { readUserFile } from './user-file.ts'

export async function importUsers({ config: name, json }: Printing, file: string): Promise<number> {
  const config = await readConfigFile(name)
  const wanted = readUserFile(file)
  const { passwordLength } = adminSettings(config)
  const taken = await withAdministration(config, ({ db, audit, actor }) =>
    new Users({ db, audit, passwords: new PasswordHasher(HASHING_HERE), passwordLength }).import(actor, wanted),
  )
  const imported = wanted.length - taken.length
  if (json) console.log(JSON.stringify({ imported, taken }))
  else {
    console.log(`${imported} ${imported === 1 ? 'user is' : 'users are'} imported`)
    for (const username of taken) console.error(`${username} is there already, and stays as it is`)
  }
  return 0
}

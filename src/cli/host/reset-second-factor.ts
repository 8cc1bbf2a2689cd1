/** `chancery users reset-second-factor`: the way back for a user who has lost every passkey. */

import { resetSecondFactor } from '../../admin/users/users.ts'
import { readConfigFile } from '../config-file.ts'
import { withAdministration } from '../operator-database.ts'
import type { Printing } from '../values.ts'

export async function resetFactorOf({ config: name, json }: Printing, username: string): Promise<number> {
  const config = await readConfigFile(name)
  const done = await withAdministration(config, ({ audit, actor }) => resetSecondFactor(audit, actor, username))
  if (json) console.log(JSON.stringify(done))
  else
    console.log(
      `${done.username} has no passkey any more (${done.passkeys} removed); all sessions and API tokens have ended`,
    )
  return 0
}

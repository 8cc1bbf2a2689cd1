/** `chancery eab reseal` and `users reset-second-factor`: what is done with secrets that stay on the host. */

import { resealCredentials } from '../../admin/eab/eab-reseal.ts'
import { resetSecondFactor } from '../../admin/users/users.ts'
import { eabSecretBox, formerEabBoxes } from '../../settings/eab-secret.ts'
import { readConfigFile } from '../config-file.ts'
import { withAdministration } from '../operator-database.ts'
import { CommandError, type Printing } from '../values.ts'

/** HMAC keys move from a former secret to the configured one. */
export async function resealKeys({ config: file, json }: Printing, oldSecretFile: string): Promise<number> {
  const config = await readConfigFile(file)
  const former = formerEabBoxes(oldSecretFile)
  const current = eabSecretBox(config)
  if (!current) throw new CommandError('there is no new secret; set acme.eab_key_file or admin_api.token_secret')
  const { resealed, kept } = await withAdministration(config, ({ audit, actor }) =>
    resealCredentials(audit, actor, former, current),
  )
  if (json) console.log(JSON.stringify({ resealed, kept }))
  else console.log(`${resealed} resealed, ${kept} were under the new secret already`)
  return 0
}

/** The way back for a user who has lost every passkey. */
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

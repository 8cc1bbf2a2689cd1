/** `chancery eab reseal`: HMAC keys move from a former secret to the configured one. */

import { resealCredentials } from '../../admin/eab/eab-reseal.ts'
import { eabSecretBox, formerEabBoxes } from '../../settings/eab-secret.ts'
import { readConfigFile } from '../config-file.ts'
import { withAdministration } from '../operator-database.ts'
import { CommandError, type Printing } from '../values.ts'

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

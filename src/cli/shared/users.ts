/** `chancery users unlock|unlock-address`: ends the locks of failed logins. */

import { isIP } from 'node:net'
import { UsageError } from '../../shared/command-line.ts'
import { type SharedCommand, shared } from '../operations/shared-command.ts'
import { tell } from '../table.ts'

export const USERS: readonly SharedCommand[] = [
  shared({
    usage: 'users unlock <username>',
    about: 'Let a user log in again whose name is locked after failed logins',
    examples: ['users unlock bob'],
    async run(caller, { json }, [name = '']) {
      const { body } = await caller.page('unlockUser', { params: { user_id: await caller.idOf('user_id', name) } })
      const { unlocked } = body as { unlocked: boolean }
      tell(json, body, unlocked ? `${name} may log in again` : `${name} has no failed logins`)
      return 0
    },
  }),
  shared({
    usage: 'users unlock-address <address>',
    about: 'Let users log in again from an address that is locked after failed logins',
    examples: ['users unlock-address 192.0.2.7'],
    async run(caller, { json }, [address = '']) {
      if (isIP(address) === 0) throw new UsageError(`${JSON.stringify(address)} is no IP address`)
      const { body } = await caller.page('unlockAddress', { body: { address } })
      const { unlocked } = body as { unlocked: boolean }
      tell(json, body, unlocked ? `users may log in again from ${address}` : `${address} has no failed logins`)
      return 0
    },
  }),
]

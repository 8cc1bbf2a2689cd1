/** `chancery terms accept`: agreements to the terms of service that were given outside the protocol. */

import { isGiven, optional, UsageError } from '../../shared/command-line.ts'
import { type SharedCommand, shared } from '../operations/shared-command.ts'
import { tell } from '../table.ts'
import { uuid } from '../values.ts'
import { ofAccount } from './grant-targets.ts'

export const TERMS: readonly SharedCommand[] = [
  shared({
    usage: 'terms accept',
    about: 'Record that an account, or with --all every one, agrees to tos.version',
    options: {
      account: optional('Account id, the last part of the account URL', uuid),
      all: isGiven('Every account'),
    },
    examples: ['terms accept --account 01938c4e-…', 'terms accept --all'],
    async run(caller, { account, all, json }) {
      if ((account === undefined) !== all) throw new UsageError('name either --account or --all')
      const asked = caller.page('acceptTerms', { body: all ? { all } : { account_id: account } })
      const { body } = await (account === undefined ? asked : ofAccount(account, asked))
      const { accounts, version } = body as { accounts: number; version: string }
      const sentence = `${accounts} accounts have now agreed to ${version}`
      tell(json, body, account === undefined ? sentence : `${account} has agreed to ${version}`)
      return 0
    },
  }),
]

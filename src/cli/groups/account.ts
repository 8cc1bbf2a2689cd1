/** `chancery accounts` and `terms`: what an account may ask for and has agreed to. */

import { isGiven, optional, UsageError } from '../../shared/command-line/options.ts'
import { configured, JSON_OPTION } from '../command.ts'
import { uuid } from '../values.ts'

const accountOf = async (id = '') => {
  const { requireAccountId } = await import('../commands/grant-targets.ts')
  return { account: requireAccountId(id), eab: undefined }
}

export const ACCOUNT = [
  configured({
    usage: 'accounts allow <id>',
    about: 'Allow identifiers to an account: names, *.name, addresses, networks',
    examples: ["-c config.yaml accounts allow 01938c4e-… host.example.com '*.a.example.com'"],
    options: JSON_OPTION,
    further: true,
    run: async (config, { json }, [id, ...identifiers]) =>
      (await import('../commands/identifiers.ts')).allowIdentifiers(config, await accountOf(id), identifiers, json),
  }),
  configured({
    usage: 'accounts disallow <id>',
    about: 'Take allowed identifiers away from an account',
    examples: ['-c config.yaml accounts disallow 01938c4e-… host.example.com'],
    options: JSON_OPTION,
    further: true,
    run: async (config, { json }, [id, ...identifiers]) =>
      (await import('../commands/identifiers.ts')).disallowIdentifiers(config, await accountOf(id), identifiers, json),
  }),
  configured({
    usage: 'accounts allowed <id>',
    about: 'List the identifiers allowed to an account',
    options: JSON_OPTION,
    examples: ['-c config.yaml accounts allowed 01938c4e-…'],
    run: async (config, { json }, [id]) =>
      (await import('../commands/identifiers.ts')).listIdentifiers(config, await accountOf(id), json),
  }),
  configured({
    usage: 'terms accept',
    about: 'Record that an account, or with --all every one, agrees to tos.version',
    options: {
      account: optional('Account id, the last part of the account URL', uuid),
      all: isGiven('Every account'),
      ...JSON_OPTION,
    },
    examples: ['-c config.yaml terms accept --account 01938c4e-…'],
    async run(config, { account, all, json }) {
      if ((account === undefined) !== all) throw new UsageError('name either --account or --all')
      return (await import('../commands/terms.ts')).acceptTerms(config, account, json)
    },
  }),
]
